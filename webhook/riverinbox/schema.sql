-- The tables beside those of River. {s} is the schema.

-- The digests of the keys of accepted events, by the day on which the event was created.
CREATE TABLE IF NOT EXISTS {s}.inbox_ledger (
	digest uuid NOT NULL,
	day    date NOT NULL,
	PRIMARY KEY (digest, day)
) PARTITION BY RANGE (day);

-- The digests of events without a day, or of a day that has no partition.
CREATE TABLE IF NOT EXISTS {s}.inbox_undated (
	digest      uuid PRIMARY KEY,
	accepted_at timestamptz NOT NULL
);
CREATE INDEX IF NOT EXISTS inbox_undated_accepted ON {s}.inbox_undated (accepted_at);

-- The jobs of each ordering key that are to be done. River may fetch the head of a line. Its
-- other jobs are pending.
CREATE TABLE IF NOT EXISTS {s}.inbox_line (
	line     uuid NOT NULL,
	order_at timestamptz NOT NULL,
	job      bigint NOT NULL,
	head     boolean NOT NULL,
	PRIMARY KEY (line, order_at, job)
) WITH ({vacuum});
CREATE UNIQUE INDEX IF NOT EXISTS inbox_line_head ON {s}.inbox_line (line) WHERE head;

-- The processes that handle events, and how many signs of life each has given. Who looks on
-- measures the time between them: no clock matters.
CREATE TABLE IF NOT EXISTS {s}.inbox_worker (
	client text COLLATE "C" PRIMARY KEY,
	beats  bigint NOT NULL
);

-- The time of the newest event of each object that was handled.
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

-- River's two GIN indexes are a third of what an event writes, and nothing here reads them.
DROP INDEX IF EXISTS {s}.river_job_args_index;
DROP INDEX IF EXISTS {s}.river_job_metadata_index;
CREATE INDEX IF NOT EXISTS inbox_dead ON {s}.river_job (finalized_at, id) WHERE state IN ('cancelled', 'discarded');
CREATE INDEX IF NOT EXISTS inbox_key ON {s}.river_job ((args->>'key')) WHERE state IN ('cancelled', 'discarded', 'retryable');
ALTER TABLE {s}.river_job SET ({vacuum});

-- inbox_next makes the oldest job of each line its head, unless the head is being worked, and has
-- River fetch it. Nothing else moves heads, and it mends whatever was done to the jobs meanwhile.
-- Until the transaction ends nothing else changes these lines.
CREATE OR REPLACE FUNCTION {s}.inbox_next(lines uuid[]) RETURNS void LANGUAGE plpgsql {index} AS $$
BEGIN
	PERFORM {s}.inbox_lock(lines);
	LOOP -- what is done or gone leaves the line
		DELETE FROM {s}.inbox_line d USING unnest(lines) AS u (line) CROSS JOIN LATERAL (
			(SELECT l.order_at, l.job FROM {s}.inbox_line l WHERE l.line = u.line AND l.head)
			UNION (SELECT l.order_at, l.job FROM {s}.inbox_line l WHERE l.line = u.line ORDER BY l.order_at, l.job LIMIT 1)
		) l LEFT JOIN {s}.river_job j ON j.id = l.job
		WHERE (d.line, d.order_at, d.job) = (u.line, l.order_at, l.job) AND (j.id IS NULL OR j.finalized_at IS NOT NULL);
		EXIT WHEN NOT FOUND;
	END LOOP;
	-- Where an older event came, the head waits. One that has just been fetched keeps its turn.
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

-- inbox_lock locks lines. All who lock several do it in one order.
CREATE OR REPLACE FUNCTION {s}.inbox_lock(lines uuid[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM pg_advisory_xact_lock(hashtextextended('{s} ' || line, 0))
		FROM (SELECT DISTINCT line FROM unnest(lines) line WHERE line IS NOT NULL ORDER BY line) one;
END $$;

-- inbox_accept stores events: their digests, a job for each that is new, and its place in its
-- line. It returns the digests of those that are new. One without a day may be anywhere in the
-- ledger.
CREATE OR REPLACE FUNCTION {s}.inbox_accept(
	digests uuid[], days date[], lines uuid[], orders timestamptz[], args jsonb[], metadata jsonb[], attempts integer
) RETURNS SETOF uuid LANGUAGE plpgsql {index} AS $$
DECLARE
	older uuid[]; -- lines that have an event now that is older than their heads
BEGIN
	PERFORM {s}.inbox_lock(lines);
	IF array_position(days, NULL) IS NOT NULL THEN
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
	older := ARRAY(SELECT DISTINCT l.line FROM unnest(lines, orders) AS e (line, order_at) JOIN {s}.inbox_line l ON l.line = e.line
		WHERE l.head AND e.order_at < l.order_at);
	IF older <> '{}' THEN PERFORM {s}.inbox_next(older); END IF;
END $$;

-- inbox_begin says whether it is the turn of a job that River has fetched, and when the newest
-- event of its object was created. A job that is not the head of its line was made available by
-- a person: it gets its place in the line, and waits.
CREATE OR REPLACE FUNCTION {s}.inbox_begin(of uuid, at timestamptz, this bigint, try integer, about text, OUT turn boolean, OUT newest timestamptz)
LANGUAGE plpgsql AS $$
BEGIN
	SELECT n.at INTO newest FROM {s}.inbox_newest n WHERE n.object = about;
	turn := of IS NULL OR EXISTS (SELECT FROM {s}.inbox_line l WHERE l.line = of AND l.order_at = at AND l.job = this AND l.head);
	IF turn THEN RETURN; END IF;
	PERFORM {s}.inbox_lock(ARRAY[of]);
	INSERT INTO {s}.inbox_line VALUES (of, at, this, false) ON CONFLICT DO NOTHING;
	PERFORM {s}.inbox_next(ARRAY[of]);
	turn := EXISTS (SELECT FROM {s}.inbox_line l WHERE l.line = of AND l.order_at = at AND l.job = this AND l.head);
	IF NOT turn THEN
		UPDATE {s}.river_job SET state = 'pending', attempt = attempt - 1 WHERE id = this AND state = 'running' AND attempt = try;
	END IF;
END $$;

-- inbox_end records what became of attempts, and lets the next events of their lines begin. It
-- returns the jobs that these attempts still had. The others stay as they are.
CREATE OR REPLACE FUNCTION {s}.inbox_end(outcomes jsonb) RETURNS SETOF bigint LANGUAGE plpgsql {index} AS $$
DECLARE
	lines uuid[] := ARRAY(SELECT DISTINCT o.line FROM jsonb_to_recordset(outcomes) AS o (line uuid) WHERE o.line IS NOT NULL);
BEGIN
	PERFORM {s}.inbox_lock(lines);
	RETURN QUERY WITH outcome AS MATERIALIZED (
		SELECT * FROM jsonb_to_recordset(outcomes) AS o (job bigint, attempt integer, state text, number integer, wait interval,
			error jsonb, metadata jsonb, object text, created timestamptz)
	), ended AS (
		UPDATE {s}.river_job j SET
			state = CASE WHEN o.state IN ('available', 'retryable') AND j.metadata ? 'cancel_attempted_at'
				THEN 'cancelled' ELSE o.state END::{s}.river_job_state,
			finalized_at = CASE WHEN o.state IN ('completed', 'cancelled') OR j.metadata ? 'cancel_attempted_at' THEN clock_timestamp() END,
			scheduled_at = coalesce(clock_timestamp() + o.wait, j.scheduled_at),
			attempt = o.number,
			errors = CASE WHEN o.error IS NULL THEN j.errors ELSE array_append(j.errors, o.error || jsonb_build_object('at', clock_timestamp())) END,
			metadata = CASE WHEN o.metadata IS NULL THEN j.metadata ELSE j.metadata || o.metadata END
		FROM outcome o WHERE j.id = o.job AND j.state = 'running' AND j.attempt = o.attempt
		RETURNING j.id
	), noted AS (
		INSERT INTO {s}.inbox_newest AS n (object, at, noted_at)
		SELECT o.object, max(o.created), now() FROM outcome o JOIN ended e ON e.id = o.job WHERE o.object IS NOT NULL GROUP BY o.object ORDER BY o.object
		ON CONFLICT (object) DO UPDATE SET at = greatest(n.at, excluded.at), noted_at = excluded.noted_at
	)
	SELECT e.id FROM ended e;
	IF lines <> '{}' THEN PERFORM {s}.inbox_next(lines); END IF;
END $$;

-- inbox_replay makes dead letters events that wait, with all their attempts, and in their places.
-- It returns how many.
CREATE OR REPLACE FUNCTION {s}.inbox_replay(jobs bigint[]) RETURNS integer LANGUAGE plpgsql {index} AS $$
DECLARE
	lines  uuid[];
	places timestamptz[];
	n      integer;
BEGIN
	-- Rows are locked in one order. What has been replayed meanwhile is left alone.
	SELECT array_agg(d.id), array_agg(d.line), array_agg(d.place) INTO jobs, lines, places FROM (
		SELECT j.id, {s}.inbox_digest(j.metadata->>'subject') AS line, (j.metadata->>'order')::timestamptz AS place
		FROM {s}.river_job j WHERE j.id = ANY (jobs) AND j.state IN ('cancelled', 'discarded') ORDER BY j.id FOR UPDATE
	) d;
	n := coalesce(cardinality(jobs), 0);
	IF n = 0 THEN RETURN 0; END IF;
	UPDATE {s}.river_job j SET
		state = CASE WHEN j.metadata ? 'subject' THEN 'pending' ELSE 'available' END::{s}.river_job_state,
		attempt = 0, finalized_at = NULL, errors = '{}', scheduled_at = now(),
		metadata = j.metadata - 'cancel_attempted_at' - 'failure'
	WHERE j.id = ANY (jobs);
	PERFORM {s}.inbox_lock(lines);
	INSERT INTO {s}.inbox_line (line, order_at, job, head) SELECT d.line, d.place, d.job, false
		FROM unnest(lines, places, jobs) AS d (line, place, job) WHERE d.line IS NOT NULL ON CONFLICT DO NOTHING;
	PERFORM {s}.inbox_next(ARRAY(SELECT DISTINCT line FROM unnest(lines) line WHERE line IS NOT NULL));
	RETURN n;
END $$;

-- inbox_digest is the line of an ordering key: half of its SHA-256.
CREATE OR REPLACE FUNCTION {s}.inbox_digest(subject text) RETURNS uuid LANGUAGE sql IMMUTABLE STRICT AS $$
	SELECT encode(substr(sha256(convert_to(subject, 'UTF8')), 1, 16), 'hex')::uuid
$$;
