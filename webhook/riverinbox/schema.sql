-- Version of this schema, and the oldest version whose release can use it. See the package comment.
CREATE TABLE IF NOT EXISTS {s}.inbox_schema (
	id      integer PRIMARY KEY,
	version integer NOT NULL,
	oldest  integer NOT NULL
);

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

-- Digests of discarded events, which are in the other tables too.
CREATE TABLE IF NOT EXISTS {s}.inbox_discarded (
	digest uuid PRIMARY KEY,
	at     timestamptz NOT NULL
);

-- Dead letters, because their jobs are slow to count. request_ids contains a line for each request ID.
CREATE TABLE IF NOT EXISTS {s}.inbox_dead (
	job         bigint PRIMARY KEY,
	at          timestamptz NOT NULL,
	received    timestamptz NOT NULL,
	digest      uuid NOT NULL,
	type        text COLLATE "C" NOT NULL,
	clinic      text COLLATE "C" NOT NULL,
	reason      text COLLATE "C" NOT NULL,
	key         text COLLATE "C" NOT NULL,
	request_ids text COLLATE "C" NOT NULL
);
CREATE INDEX IF NOT EXISTS inbox_dead_at ON {s}.inbox_dead (at, job);
CREATE INDEX IF NOT EXISTS inbox_dead_digest ON {s}.inbox_dead (digest);

-- Waiting and running jobs by digest of their ordering key. The head runs first. The others are
-- pending.
CREATE TABLE IF NOT EXISTS {s}.inbox_order (
	ordering_key uuid NOT NULL,
	order_at     timestamptz NOT NULL,
	job          bigint NOT NULL,
	head         boolean NOT NULL,
	PRIMARY KEY (ordering_key, order_at, job)
) WITH ({vacuum});
CREATE UNIQUE INDEX IF NOT EXISTS inbox_order_head ON {s}.inbox_order (ordering_key) WHERE head;

-- Heartbeats of processes. Other processes watch the counter, so clocks do not matter.
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
CREATE INDEX IF NOT EXISTS inbox_event ON {s}.river_job (split_part(args->>'key', '/', 3)) WHERE state = 'retryable';
ALTER TABLE {s}.river_job SET ({vacuum});

-- inbox_next makes the oldest job of each ordering key the head and available, unless the head is running.
-- It is the only statement that moves heads. It also repairs the order after changes by other clients.
CREATE OR REPLACE FUNCTION {s}.inbox_next(ordering_keys uuid[]) RETURNS void LANGUAGE plpgsql {index} AS $$
BEGIN
	ordering_keys := array_remove(ordering_keys, NULL);
	IF ordering_keys = '{}' THEN RETURN; END IF;
	PERFORM {s}.inbox_lock(ordering_keys);
	LOOP -- remove ended and deleted jobs
		DELETE FROM {s}.inbox_order d USING unnest(ordering_keys) AS u (ordering_key) CROSS JOIN LATERAL (
			(SELECT l.order_at, l.job FROM {s}.inbox_order l WHERE l.ordering_key = u.ordering_key AND l.head)
			UNION (SELECT l.order_at, l.job FROM {s}.inbox_order l WHERE l.ordering_key = u.ordering_key ORDER BY l.order_at, l.job LIMIT 1)
		) l LEFT JOIN {s}.river_job j ON j.id = l.job
		WHERE (d.ordering_key, d.order_at, d.job) = (u.ordering_key, l.order_at, l.job) AND (j.id IS NULL OR j.finalized_at IS NOT NULL);
		EXIT WHEN NOT FOUND;
	END LOOP;
	-- If an older event has arrived, the head becomes pending, unless River is fetching it.
	WITH waiting AS (
		UPDATE {s}.river_job SET state = 'pending' WHERE id IN (
			SELECT j.id FROM unnest(ordering_keys) AS u (ordering_key) JOIN {s}.inbox_order l ON l.ordering_key = u.ordering_key AND l.head JOIN {s}.river_job j ON j.id = l.job
			WHERE j.state <> 'running' AND EXISTS (
				SELECT FROM {s}.inbox_order o WHERE o.ordering_key = l.ordering_key AND (o.order_at, o.job) < (l.order_at, l.job))
			FOR UPDATE OF j SKIP LOCKED
		) RETURNING id
	) UPDATE {s}.inbox_order l SET head = false FROM waiting w WHERE l.ordering_key = ANY (ordering_keys) AND l.head AND l.job = w.id;
	UPDATE {s}.inbox_order d SET head = true FROM unnest(ordering_keys) AS u (ordering_key) CROSS JOIN LATERAL (
		SELECT l.order_at, l.job FROM {s}.inbox_order l WHERE l.ordering_key = u.ordering_key ORDER BY l.order_at, l.job LIMIT 1
	) l WHERE (d.ordering_key, d.order_at, d.job) = (u.ordering_key, l.order_at, l.job)
		AND NOT EXISTS (SELECT FROM {s}.inbox_order h WHERE h.ordering_key = u.ordering_key AND h.head);
	UPDATE {s}.river_job j SET state = 'available' FROM unnest(ordering_keys) AS u (ordering_key) JOIN {s}.inbox_order l ON l.ordering_key = u.ordering_key AND l.head
		WHERE j.id = l.job AND j.state = 'pending';
END $$;

-- inbox_lock locks ordering keys until the end of the transaction, in sorted order.
CREATE OR REPLACE FUNCTION {s}.inbox_lock(ordering_keys uuid[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM pg_advisory_xact_lock(hashtextextended('{s} ' || ordering_key, 0))
		FROM (SELECT DISTINCT ordering_key FROM unnest(ordering_keys) ordering_key WHERE ordering_key IS NOT NULL ORDER BY ordering_key) one;
END $$;

-- inbox_accept stores digests, jobs and places of events. It returns the new digests.
CREATE OR REPLACE FUNCTION {s}.inbox_accept(
	digests uuid[], days date[], ordering_keys uuid[], orders timestamptz[], arrivals timestamptz[], args jsonb[], metadata jsonb[], attempts integer
) RETURNS SETOF uuid LANGUAGE plpgsql {index} AS $$
BEGIN
	-- An event without an ordering key has its own lock, because another process may not know its day.
	PERFORM {s}.inbox_lock(ARRAY(SELECT coalesce(e.ordering_key, e.digest) FROM unnest(ordering_keys, digests) AS e (ordering_key, digest)));
	IF array_position(days, NULL) IS NOT NULL THEN -- search the whole ledger
		digests := ARRAY(SELECT CASE WHEN e.day IS NOT NULL OR NOT EXISTS (SELECT FROM {s}.inbox_ledger l WHERE l.digest = e.digest) THEN e.digest END
			FROM unnest(digests, days) WITH ORDINALITY AS e (digest, day, n) ORDER BY e.n);
	END IF;
	RETURN QUERY WITH event AS MATERIALIZED (
		SELECT * FROM unnest(digests, days, ordering_keys, orders, arrivals, args, metadata) AS e (digest, day, ordering_key, order_at, received_at, args, metadata)
		WHERE e.digest IS NOT NULL AND NOT EXISTS (SELECT FROM {s}.inbox_undated u WHERE u.digest = e.digest)
	), dated AS (
		INSERT INTO {s}.inbox_ledger AS l (digest, day) SELECT e.digest, e.day FROM event e WHERE e.day IS NOT NULL ORDER BY e.digest
		ON CONFLICT DO NOTHING RETURNING l.digest
	), undated AS (
		INSERT INTO {s}.inbox_undated AS u (digest, accepted_at) SELECT e.digest, now() FROM event e WHERE e.day IS NULL ORDER BY e.digest
		ON CONFLICT DO NOTHING RETURNING u.digest
	), fresh AS MATERIALIZED (
		SELECT nextval('{s}.river_job_id_seq') AS id, e.*,
			row_number() OVER (PARTITION BY e.ordering_key ORDER BY e.order_at, e.digest) = 1
			AND NOT EXISTS (SELECT FROM {s}.inbox_order l WHERE l.ordering_key = e.ordering_key) AS begins
		FROM (TABLE dated UNION ALL TABLE undated) d JOIN event e USING (digest)
	), job AS (
		INSERT INTO {s}.river_job (id, created_at, args, kind, max_attempts, metadata, queue, state)
		SELECT f.id, f.received_at, f.args, '{kind}', attempts, f.metadata, '{queue}',
			CASE WHEN f.ordering_key IS NULL OR f.begins THEN 'available' ELSE 'pending' END::{s}.river_job_state
		FROM fresh f ORDER BY f.id
	), place AS (
		INSERT INTO {s}.inbox_order (ordering_key, order_at, job, head) SELECT f.ordering_key, f.order_at, f.id, f.begins FROM fresh f WHERE f.ordering_key IS NOT NULL
	)
	SELECT f.digest FROM fresh f;
	PERFORM {s}.inbox_next(ARRAY(SELECT l.ordering_key FROM unnest(ordering_keys, orders) AS e (ordering_key, order_at) JOIN {s}.inbox_order l ON l.ordering_key = e.ordering_key
		WHERE l.head AND e.order_at < l.order_at));
END $$;

-- inbox_turn gives a running job its place, after a person has made it available. It returns true if
-- the job is the head, and otherwise makes it pending.
CREATE OR REPLACE FUNCTION {s}.inbox_turn(of uuid, place timestamptz, this bigint, at timestamptz) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	PERFORM {s}.inbox_lock(ARRAY[of]);
	INSERT INTO {s}.inbox_order VALUES (of, place, this, false) ON CONFLICT DO NOTHING;
	PERFORM {s}.inbox_next(ARRAY[of]);
	IF EXISTS (SELECT FROM {s}.inbox_order l WHERE l.ordering_key = of AND l.job = this AND l.head) THEN RETURN true; END IF;
	UPDATE {s}.river_job SET state = 'pending', attempt = attempt - 1 WHERE id = this AND state = 'running' AND attempted_at = at;
	RETURN false;
END $$;

-- inbox_end records outcomes and makes the next jobs of their ordering keys available. It returns the indexes
-- of the outcomes, except those of overtaken attempts, whose attempted_at differs.
CREATE OR REPLACE FUNCTION {s}.inbox_end(outcomes jsonb) RETURNS SETOF integer LANGUAGE plpgsql {index} AS $$
DECLARE
	ordering_keys uuid[] := ARRAY(SELECT o.ordering_key FROM jsonb_to_recordset(outcomes) AS o (ordering_key uuid));
BEGIN
	PERFORM {s}.inbox_lock(ordering_keys);
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
	PERFORM {s}.inbox_next(ordering_keys);
END $$;

-- inbox_replay turns dead letters into waiting events with all attempts, in their places. It returns
-- the number of events.
CREATE OR REPLACE FUNCTION {s}.inbox_replay(jobs bigint[]) RETURNS integer LANGUAGE plpgsql {index} AS $$
DECLARE
	ordering_keys uuid[];
BEGIN
	WITH dead AS MATERIALIZED (
		SELECT j.id FROM {s}.river_job j WHERE j.id = ANY (jobs) AND j.state IN ('cancelled', 'discarded') ORDER BY j.id FOR UPDATE
	), replayed AS (
		UPDATE {s}.river_job j SET
			state = CASE WHEN j.metadata ? 'ordering_key' THEN 'pending' ELSE 'available' END::{s}.river_job_state, attempt = 0,
			finalized_at = NULL, scheduled_at = now(), errors = '{}', metadata = j.metadata - 'cancel_attempted_at' - 'failure'
		FROM dead d WHERE j.id = d.id
		RETURNING j.id, {s}.inbox_digest(j.metadata->>'ordering_key') AS ordering_key, (j.metadata->>'order_at')::timestamptz AS order_at
	), place AS (
		INSERT INTO {s}.inbox_order (ordering_key, order_at, job, head) SELECT r.ordering_key, r.order_at, r.id, false FROM replayed r WHERE r.ordering_key IS NOT NULL
		ON CONFLICT DO NOTHING
	) SELECT array_agg(r.ordering_key) INTO ordering_keys FROM replayed r;
	PERFORM {s}.inbox_next(ordering_keys);
	RETURN coalesce(cardinality(ordering_keys), 0);
END $$;

-- inbox_digest returns half of the SHA-256 of a text.
CREATE OR REPLACE FUNCTION {s}.inbox_digest(content text) RETURNS uuid LANGUAGE sql IMMUTABLE STRICT AS $$
	SELECT encode(substr(sha256(convert_to(content, 'UTF8')), 1, 16), 'hex')::uuid
$$;

-- inbox_key_digest returns the digest of a key: half of it is of the event ID, and half of the whole text.
CREATE OR REPLACE FUNCTION {s}.inbox_key_digest(key text) RETURNS uuid LANGUAGE sql IMMUTABLE STRICT AS $$
	SELECT encode(substr(sha256(convert_to(split_part(key, '/', 3), 'UTF8')), 1, 8) || substr(sha256(convert_to(key, 'UTF8')), 1, 8), 'hex')::uuid
$$;

-- inbox_note updates inbox_dead and inbox_discarded, even if another client of River changes or deletes a job.
CREATE OR REPLACE FUNCTION {s}.inbox_note() RETURNS trigger LANGUAGE plpgsql {index} AS $$
BEGIN
	DELETE FROM {s}.inbox_dead d WHERE d.job = OLD.id;
	IF TG_OP = 'DELETE' THEN
		INSERT INTO {s}.inbox_discarded VALUES ({s}.inbox_key_digest(OLD.args->>'key'), now()) ON CONFLICT (digest) DO UPDATE SET at = excluded.at;
	ELSIF NEW.state IN ('cancelled', 'discarded') THEN
		INSERT INTO {s}.inbox_dead VALUES (NEW.id, NEW.finalized_at, NEW.created_at, {s}.inbox_key_digest(NEW.args->>'key'), NEW.metadata->>'type',
			coalesce(NEW.metadata->>'clinic', ''),
			(SELECT {reason} FROM (SELECT NEW.metadata, NEW.errors) j),
			NEW.args->>'key', (SELECT coalesce(string_agg(f->>'request_id', E'\n'), '') FROM jsonb_array_elements(NEW.metadata->'failures') f));
	END IF;
	RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER inbox_died AFTER UPDATE ON {s}.river_job FOR EACH ROW WHEN (OLD.finalized_at IS DISTINCT FROM NEW.finalized_at
	AND OLD.kind = '{kind}' AND (OLD.state IN ('cancelled', 'discarded') OR NEW.state IN ('cancelled', 'discarded'))) EXECUTE FUNCTION {s}.inbox_note();
CREATE OR REPLACE TRIGGER inbox_discarded AFTER DELETE ON {s}.river_job FOR EACH ROW
	WHEN (OLD.state <> 'completed' AND OLD.kind = '{kind}') EXECUTE FUNCTION {s}.inbox_note();

-- River records a canceled attempt when its handler ends, even if another attempt runs by then. The inbox
-- has recorded the outcome before, so this change of River has no effect.
CREATE OR REPLACE FUNCTION {s}.inbox_keep() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER inbox_canceled BEFORE UPDATE ON {s}.river_job FOR EACH ROW WHEN (OLD.state = 'running' AND NEW.state = 'cancelled'
	AND OLD.kind = '{kind}' AND NEW.errors[cardinality(NEW.errors)]->>'error' = '{canceled}') EXECUTE FUNCTION {s}.inbox_keep();

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

INSERT INTO {s}.inbox_schema (id, version, oldest) VALUES (1, 1, 1) ON CONFLICT (id) DO UPDATE SET version = excluded.version, oldest = excluded.oldest;
