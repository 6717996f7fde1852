-- Digests of the keys of accepted events, by the day of their creation.
CREATE TABLE IF NOT EXISTS {s}.inbox_ledger (
	digest uuid NOT NULL,
	day    date NOT NULL,
	PRIMARY KEY (digest, day)
) PARTITION BY RANGE (day);

-- Digests of keys without a partition for their day.
CREATE TABLE IF NOT EXISTS {s}.inbox_undated (
	digest      uuid PRIMARY KEY,
	accepted_at timestamptz NOT NULL
);
CREATE INDEX IF NOT EXISTS inbox_undated_accepted ON {s}.inbox_undated (accepted_at);

-- Waiting and running jobs of each ordering key. The head runs first. The others are pending.
CREATE TABLE IF NOT EXISTS {s}.inbox_line (
	line     uuid NOT NULL,
	order_at timestamptz NOT NULL,
	job      bigint NOT NULL,
	head     boolean NOT NULL,
	PRIMARY KEY (line, order_at, job)
) WITH ({vacuum});
CREATE UNIQUE INDEX IF NOT EXISTS inbox_line_head ON {s}.inbox_line (line) WHERE head;

-- Signs of life of processes. Other processes watch the counter, so clocks do not matter.
CREATE TABLE IF NOT EXISTS {s}.inbox_worker (
	client text COLLATE "C" PRIMARY KEY,
	beats  bigint NOT NULL
);

-- Time of the newest handled event of each object.
CREATE TABLE IF NOT EXISTS {s}.inbox_newest (
	object   text COLLATE "C" PRIMARY KEY,
	at       timestamptz NOT NULL,
	noted_at timestamptz NOT NULL
) WITH (fillfactor = 80, {vacuum});
CREATE INDEX IF NOT EXISTS inbox_newest_noted ON {s}.inbox_newest (noted_at);

CREATE TABLE IF NOT EXISTS {s}.inbox_checkpoints (
	name   text COLLATE "C" PRIMARY KEY,
	holder text COLLATE "C" NOT NULL,
	until  timestamptz NOT NULL,
	state  bytea
);

-- The inbox does not use River's two GIN indexes. They are a third of the WAL of an event.
DROP INDEX IF EXISTS {s}.river_job_args_index, {s}.river_job_metadata_index;
CREATE INDEX IF NOT EXISTS inbox_dead ON {s}.river_job (finalized_at, id) WHERE state IN ('cancelled', 'discarded');
CREATE INDEX IF NOT EXISTS inbox_key ON {s}.river_job ((args->>'key')) WHERE state IN ('cancelled', 'discarded', 'retryable');
ALTER TABLE {s}.river_job SET ({vacuum});

-- inbox_next makes the oldest job of each line the head and available, unless the head is running.
-- It is the only statement that moves heads. It also repairs lines after changes by other clients.
CREATE OR REPLACE FUNCTION {s}.inbox_next(lines uuid[]) RETURNS void LANGUAGE plpgsql {index} AS $$
BEGIN
	lines := array_remove(lines, NULL);
	IF lines = '{}' THEN RETURN; END IF;
	PERFORM {s}.inbox_lock(lines);
	LOOP -- remove ended and deleted jobs
		DELETE FROM {s}.inbox_line d USING unnest(lines) AS u (line) CROSS JOIN LATERAL (
			(SELECT l.order_at, l.job FROM {s}.inbox_line l WHERE l.line = u.line AND l.head)
			UNION (SELECT l.order_at, l.job FROM {s}.inbox_line l WHERE l.line = u.line ORDER BY l.order_at, l.job LIMIT 1)
		) l LEFT JOIN {s}.river_job j ON j.id = l.job
		WHERE (d.line, d.order_at, d.job) = (u.line, l.order_at, l.job) AND (j.id IS NULL OR j.finalized_at IS NOT NULL);
		EXIT WHEN NOT FOUND;
	END LOOP;
	-- If an older event has come, the head becomes pending, unless River is fetching it.
	WITH waiting AS (
		UPDATE {s}.river_job SET state = 'pending' WHERE id IN (
			SELECT j.id FROM unnest(lines) AS u (line) JOIN {s}.inbox_line l ON l.line = u.line AND l.head JOIN {s}.river_job j ON j.id = l.job
			WHERE j.state <> 'running' AND EXISTS (
				SELECT FROM {s}.inbox_line o WHERE o.line = l.line AND (o.order_at, o.job) < (l.order_at, l.job))
			FOR UPDATE OF j SKIP LOCKED
		) RETURNING id
	) UPDATE {s}.inbox_line l SET head = false FROM waiting w WHERE l.line = ANY (lines) AND l.head AND l.job = w.id;
	UPDATE {s}.inbox_line d SET head = true FROM unnest(lines) AS u (line) CROSS JOIN LATERAL (
		SELECT l.order_at, l.job FROM {s}.inbox_line l WHERE l.line = u.line ORDER BY l.order_at, l.job LIMIT 1
	) l WHERE (d.line, d.order_at, d.job) = (u.line, l.order_at, l.job)
		AND NOT EXISTS (SELECT FROM {s}.inbox_line h WHERE h.line = u.line AND h.head);
	UPDATE {s}.river_job j SET state = 'available' FROM unnest(lines) AS u (line) JOIN {s}.inbox_line l ON l.line = u.line AND l.head
		WHERE j.id = l.job AND j.state = 'pending';
END $$;

-- inbox_lock locks lines until the end of the transaction, in sorted order.
CREATE OR REPLACE FUNCTION {s}.inbox_lock(lines uuid[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM pg_advisory_xact_lock(hashtextextended('{s} ' || line, 0))
		FROM (SELECT DISTINCT line FROM unnest(lines) line WHERE line IS NOT NULL ORDER BY line) one;
END $$;

-- inbox_accept stores digests, jobs and places in lines of events. It returns the new digests.
CREATE OR REPLACE FUNCTION {s}.inbox_accept(
	digests uuid[], days date[], lines uuid[], orders timestamptz[], args jsonb[], metadata jsonb[], attempts integer
) RETURNS SETOF uuid LANGUAGE plpgsql {index} AS $$
BEGIN
	-- An event without a line has a lock of its own, because another process may not know its day.
	PERFORM {s}.inbox_lock(ARRAY(SELECT coalesce(e.line, e.digest) FROM unnest(lines, digests) AS e (line, digest)));
	IF array_position(days, NULL) IS NOT NULL THEN -- search the whole ledger
		digests := ARRAY(SELECT CASE WHEN e.day IS NOT NULL OR NOT EXISTS (SELECT FROM {s}.inbox_ledger l WHERE l.digest = e.digest) THEN e.digest END
			FROM unnest(digests, days) WITH ORDINALITY AS e (digest, day, n) ORDER BY e.n);
	END IF;
	RETURN QUERY WITH event AS MATERIALIZED (
		SELECT * FROM unnest(digests, days, lines, orders, args, metadata) AS e (digest, day, line, order_at, args, metadata)
		WHERE e.digest IS NOT NULL AND NOT EXISTS (SELECT FROM {s}.inbox_undated u WHERE u.digest = e.digest)
	), dated AS (
		INSERT INTO {s}.inbox_ledger AS l (digest, day) SELECT e.digest, e.day FROM event e WHERE e.day IS NOT NULL ORDER BY e.digest
		ON CONFLICT DO NOTHING RETURNING l.digest
	), undated AS (
		INSERT INTO {s}.inbox_undated AS u (digest, accepted_at) SELECT e.digest, now() FROM event e WHERE e.day IS NULL ORDER BY e.digest
		ON CONFLICT DO NOTHING RETURNING u.digest
	), fresh AS MATERIALIZED (
		SELECT nextval('{s}.river_job_id_seq') AS id, e.*,
			row_number() OVER (PARTITION BY e.line ORDER BY e.order_at, e.digest) = 1
			AND NOT EXISTS (SELECT FROM {s}.inbox_line l WHERE l.line = e.line) AS begins
		FROM (TABLE dated UNION ALL TABLE undated) d JOIN event e USING (digest)
	), job AS (
		INSERT INTO {s}.river_job (id, args, kind, max_attempts, metadata, queue, state)
		SELECT f.id, f.args, '{kind}', attempts, f.metadata, '{queue}',
			CASE WHEN f.line IS NULL OR f.begins THEN 'available' ELSE 'pending' END::{s}.river_job_state
		FROM fresh f ORDER BY f.id
	), place AS (
		INSERT INTO {s}.inbox_line (line, order_at, job, head) SELECT f.line, f.order_at, f.id, f.begins FROM fresh f WHERE f.line IS NOT NULL
	)
	SELECT f.digest FROM fresh f;
	PERFORM {s}.inbox_next(ARRAY(SELECT l.line FROM unnest(lines, orders) AS e (line, order_at) JOIN {s}.inbox_line l ON l.line = e.line
		WHERE l.head AND e.order_at < l.order_at));
END $$;

-- inbox_turn adds a running job to its line, after a person has made it available. It returns true if
-- the job is the head, and otherwise makes it pending.
CREATE OR REPLACE FUNCTION {s}.inbox_turn(of uuid, place timestamptz, this bigint, at timestamptz) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	PERFORM {s}.inbox_lock(ARRAY[of]);
	INSERT INTO {s}.inbox_line VALUES (of, place, this, false) ON CONFLICT DO NOTHING;
	PERFORM {s}.inbox_next(ARRAY[of]);
	IF EXISTS (SELECT FROM {s}.inbox_line l WHERE l.line = of AND l.job = this AND l.head) THEN RETURN true; END IF;
	UPDATE {s}.river_job SET state = 'pending', attempt = attempt - 1 WHERE id = this AND state = 'running' AND attempted_at = at;
	RETURN false;
END $$;

-- inbox_end records outcomes and makes the next jobs of their lines available. It returns the indexes
-- of the outcomes, except those of overtaken attempts, whose attempted_at differs.
CREATE OR REPLACE FUNCTION {s}.inbox_end(outcomes jsonb) RETURNS SETOF integer LANGUAGE plpgsql {index} AS $$
DECLARE
	lines uuid[] := ARRAY(SELECT o.line FROM jsonb_to_recordset(outcomes) AS o (line uuid));
BEGIN
	PERFORM {s}.inbox_lock(lines);
	RETURN QUERY WITH outcome AS MATERIALIZED (
		SELECT * FROM jsonb_to_recordset(outcomes) AS o (n integer, job bigint, at timestamptz, state text, attempt integer,
			wait interval, reason text, metadata jsonb, object text, created timestamptz)
	), ended AS (
		UPDATE {s}.river_job j SET
			state = CASE WHEN o.state <> 'completed' AND j.metadata ? 'cancel_attempted_at' THEN 'cancelled' ELSE o.state END::{s}.river_job_state,
			finalized_at = CASE WHEN o.state IN ('completed', 'cancelled') OR j.metadata ? 'cancel_attempted_at' THEN clock_timestamp() END,
			scheduled_at = coalesce(clock_timestamp() + o.wait, j.scheduled_at), attempt = o.attempt,
			errors = CASE WHEN o.reason IS NULL THEN j.errors ELSE array_append(j.errors,
				jsonb_build_object('at', clock_timestamp(), 'attempt', o.attempt, 'error', o.reason, 'trace', '')) END,
			metadata = CASE WHEN o.metadata IS NULL THEN j.metadata ELSE j.metadata || o.metadata END
		FROM outcome o WHERE j.id = o.job AND j.state = 'running' AND j.attempted_at = o.at RETURNING o.n
	), noted AS (
		INSERT INTO {s}.inbox_newest AS n (object, at, noted_at)
		SELECT o.object, max(o.created), now() FROM outcome o JOIN ended e USING (n) WHERE o.object IS NOT NULL GROUP BY o.object ORDER BY o.object
		ON CONFLICT (object) DO UPDATE SET at = greatest(n.at, excluded.at), noted_at = excluded.noted_at
	)
	SELECT e.n FROM ended e;
	PERFORM {s}.inbox_next(lines);
END $$;

-- inbox_replay turns dead letters into waiting events with all attempts, in their places. It returns
-- the number of events.
CREATE OR REPLACE FUNCTION {s}.inbox_replay(jobs bigint[]) RETURNS integer LANGUAGE plpgsql {index} AS $$
DECLARE
	lines uuid[];
BEGIN
	WITH dead AS MATERIALIZED (
		SELECT j.id FROM {s}.river_job j WHERE j.id = ANY (jobs) AND j.state IN ('cancelled', 'discarded') ORDER BY j.id FOR UPDATE
	), replayed AS (
		UPDATE {s}.river_job j SET
			state = CASE WHEN j.metadata ? 'subject' THEN 'pending' ELSE 'available' END::{s}.river_job_state, attempt = 0,
			finalized_at = NULL, scheduled_at = now(), errors = '{}', metadata = j.metadata - 'cancel_attempted_at' - 'failure'
		FROM dead d WHERE j.id = d.id
		RETURNING j.id, {s}.inbox_digest(j.metadata->>'subject') AS line, (j.metadata->>'order')::timestamptz AS order_at
	), place AS (
		INSERT INTO {s}.inbox_line (line, order_at, job, head) SELECT r.line, r.order_at, r.id, false FROM replayed r WHERE r.line IS NOT NULL
		ON CONFLICT DO NOTHING
	) SELECT array_agg(r.line) INTO lines FROM replayed r;
	PERFORM {s}.inbox_next(lines);
	RETURN coalesce(cardinality(lines), 0);
END $$;

-- inbox_digest returns half of the SHA-256 of a text.
CREATE OR REPLACE FUNCTION {s}.inbox_digest(subject text) RETURNS uuid LANGUAGE sql IMMUTABLE STRICT AS $$
	SELECT encode(substr(sha256(convert_to(subject, 'UTF8')), 1, 16), 'hex')::uuid
$$;

-- inbox_days creates partitions of the ledger. Accepts do not wait for it.
CREATE OR REPLACE FUNCTION {s}.inbox_days(behind integer, ahead integer) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	today date := (now() AT TIME ZONE 'UTC')::date;
	name  text;
BEGIN
	PERFORM pg_advisory_xact_lock(hashtextextended('{s} days', 0));
	FOR n IN -behind..ahead LOOP
		name := 'inbox_ledger_' || to_char(today + n, 'YYYYMMDD');
		CONTINUE WHEN to_regclass('{s}.' || name) IS NOT NULL;
		EXECUTE format('CREATE TABLE {s}.%1$I (LIKE {s}.inbox_ledger INCLUDING ALL);
			ALTER TABLE {s}.inbox_ledger ATTACH PARTITION {s}.%1$I FOR VALUES FROM (%2$L) TO (%3$L)', name, today + n, today + n + 1);
	END LOOP;
END $$;
