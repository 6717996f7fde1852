-- Version of this schema, and the oldest version whose release can use it. See the package comment.
CREATE TABLE IF NOT EXISTS {s}.inbox_schema (id integer PRIMARY KEY, version integer NOT NULL, oldest integer NOT NULL);

-- Digests of the keys of accepted events, with their jobs. The platform's clock sets created_at, unless
-- it is ahead of the database.
CREATE TABLE IF NOT EXISTS {s}.inbox_ledger (
	digest       uuid PRIMARY KEY,
	job          bigint NOT NULL,
	created_at   timestamptz NOT NULL,
	accepted_at  timestamptz NOT NULL,
	discarded_at timestamptz
);
CREATE INDEX IF NOT EXISTS inbox_ledger_created ON {s}.inbox_ledger (created_at);

-- Dead letters, because their jobs are slow to count. request_ids contains a line for each request ID.
CREATE TABLE IF NOT EXISTS {s}.inbox_dead (
	job         bigint PRIMARY KEY,
	at          timestamptz NOT NULL,
	received    timestamptz NOT NULL,
	type        text COLLATE "C" NOT NULL,
	clinic      text COLLATE "C" NOT NULL,
	reason      text COLLATE "C" NOT NULL,
	key         text COLLATE "C" NOT NULL,
	request_ids text COLLATE "C" NOT NULL
);
CREATE INDEX IF NOT EXISTS inbox_dead_at ON {s}.inbox_dead (at, job);

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

-- Ordering keys whose head may have to move, added by the transaction that changes a job. A replayed job needs
-- its place again.
CREATE TABLE IF NOT EXISTS {s}.inbox_moves (
	id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	ordering_key uuid NOT NULL, order_at timestamptz, job bigint
) WITH ({vacuum});

-- Heartbeats of processes. Other processes watch the counter, so clocks do not matter.
CREATE TABLE IF NOT EXISTS {s}.inbox_worker (client text COLLATE "C" PRIMARY KEY, beats bigint NOT NULL);

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
CREATE INDEX IF NOT EXISTS inbox_unfinished ON {s}.river_job (created_at) WHERE finalized_at IS NULL;
ALTER TABLE {s}.river_job SET ({vacuum});

-- inbox_digest returns half of the SHA-256 of a text.
CREATE OR REPLACE FUNCTION {s}.inbox_digest(content text) RETURNS uuid LANGUAGE sql IMMUTABLE STRICT AS $$
	SELECT encode(substr(sha256(convert_to(content, 'UTF8')), 1, 16), 'hex')::uuid
$$;

-- inbox_key_digest returns the digest of a key: half of it is of the event ID, and half of the whole text.
CREATE OR REPLACE FUNCTION {s}.inbox_key_digest(key text) RETURNS uuid LANGUAGE sql IMMUTABLE STRICT AS $$
	SELECT encode(substr(sha256(convert_to(split_part(key, '/', 3), 'UTF8')), 1, 8) || substr(sha256(convert_to(key, 'UTF8')), 1, 8), 'hex')::uuid
$$;

-- inbox_accept is called by Accept, and without events by CheckWrite. It stores digests, jobs and places of
-- events, and returns the new digests, and as busy the digests of events that another transaction is
-- storing. The first event of an idle ordering key is its head. inbox_settle makes the others available. It
-- locks digests, then idle ordering keys, and waits for no lock.
CREATE OR REPLACE FUNCTION {s}.inbox_accept(
	digests uuid[], created timestamptz[], ordering_keys uuid[], orders timestamptz[], arrivals timestamptz[], args jsonb[], metadata jsonb[], attempts integer
) RETURNS TABLE (event uuid, busy boolean) LANGUAGE plpgsql {index} AS $$
DECLARE
	mine uuid[] := ARRAY(SELECT d FROM unnest(digests) d WHERE pg_try_advisory_xact_lock(hashtextextended('{s} ' || d, 0)));
	idle uuid[] := ARRAY(WITH k AS MATERIALIZED (
		SELECT DISTINCT o AS ordering_key FROM unnest(ordering_keys) o WHERE o IS NOT NULL AND NOT EXISTS (SELECT FROM {s}.inbox_order l WHERE l.ordering_key = o)
	) SELECT k.ordering_key FROM k WHERE pg_try_advisory_xact_lock({lock} k.ordering_key, 0)));
BEGIN
	RETURN QUERY SELECT d, true FROM unnest(digests) d WHERE d <> ALL (mine);
	RETURN QUERY WITH fresh AS MATERIALIZED (
		SELECT nextval('{s}.river_job_id_seq') AS id, e.*, e.ordering_key = ANY (idle)
			AND row_number() OVER (PARTITION BY e.ordering_key ORDER BY e.order_at, e.digest) = 1
			AND NOT EXISTS (SELECT FROM {s}.inbox_order l WHERE l.ordering_key = e.ordering_key) AS begins
		FROM unnest(digests, created, ordering_keys, orders, arrivals, args, metadata) AS e (digest, created_at, ordering_key, order_at, received_at, args, metadata)
		WHERE e.digest = ANY (mine) AND NOT EXISTS (SELECT FROM {s}.inbox_ledger l WHERE l.digest = e.digest)
	), entry AS (
		INSERT INTO {s}.inbox_ledger (digest, job, created_at, accepted_at) SELECT f.digest, f.id, least(f.created_at, now()), now() FROM fresh f
	), job AS (
		INSERT INTO {s}.river_job (id, created_at, args, kind, max_attempts, metadata, queue, state)
		SELECT f.id, f.received_at, f.args, '{kind}', attempts, f.metadata, '{queue}',
			CASE WHEN f.ordering_key IS NULL OR f.begins THEN 'available' ELSE 'pending' END::{s}.river_job_state
		FROM fresh f ORDER BY f.id
	), place AS (
		INSERT INTO {s}.inbox_order (ordering_key, order_at, job, head) SELECT f.ordering_key, f.order_at, f.id, f.begins FROM fresh f WHERE f.ordering_key IS NOT NULL
	), move AS (
		INSERT INTO {s}.inbox_moves (ordering_key) SELECT DISTINCT f.ordering_key FROM fresh f WHERE f.ordering_key IS NOT NULL AND NOT f.begins
	)
	SELECT f.digest, false FROM fresh f;
END $$;

-- inbox_settle is called after each change of jobs, and by the sweep. It moves the heads of changed ordering
-- keys, for changes beyond an ID. It returns the number of changes, the ID of the last one, and busy if another
-- transaction has locked one of the keys. It locks rows of inbox_moves and ordering keys without waiting, until a
-- commit that does not wait for the disk, then as inbox_next.
CREATE OR REPLACE FUNCTION {s}.inbox_settle(beyond bigint) RETURNS TABLE (changes bigint, last bigint, busy boolean) LANGUAGE plpgsql {index} AS $$
DECLARE
	ordering_keys uuid[]; orders timestamptz[]; jobs bigint[];
BEGIN
	PERFORM set_config('synchronous_commit', 'off', true), {mark};
	WITH due AS MATERIALIZED (
		SELECT m.id, pg_try_advisory_xact_lock({lock} m.ordering_key, 0)) AS mine
		FROM (SELECT * FROM {s}.inbox_moves WHERE id > beyond ORDER BY id LIMIT {group} FOR UPDATE SKIP LOCKED) m
	), taken AS (
		DELETE FROM {s}.inbox_moves WHERE id IN (SELECT d.id FROM due d WHERE d.mine) RETURNING ordering_key, order_at, job
	), seen AS (
		SELECT count(*) AS changes, coalesce(max(d.id), 0) AS last, coalesce(NOT bool_and(d.mine), false) AS busy FROM due d
	) SELECT array_agg(t.ordering_key), array_agg(t.order_at), array_agg(t.job), s.* INTO ordering_keys, orders, jobs, changes, last, busy
		FROM seen s LEFT JOIN taken t ON true GROUP BY s.changes, s.last, s.busy;
	IF ordering_keys[1] IS NOT NULL THEN
		INSERT INTO {s}.inbox_order SELECT m.ordering_key, m.order_at, m.job, false FROM unnest(ordering_keys, orders, jobs) AS m (ordering_key, order_at, job)
			JOIN {s}.river_job j ON j.id = m.job WHERE j.finalized_at IS NULL AND m.order_at IS NOT NULL ON CONFLICT DO NOTHING;
		PERFORM {s}.inbox_next(ordering_keys);
	END IF;
	RETURN NEXT;
END $$;

-- inbox_next is called by inbox_settle and inbox_turn. It makes the oldest job of each ordering key the head
-- and available, unless the head is running. It is the only statement that moves heads. The caller has locked
-- the ordering keys. It locks their places, then their jobs.
CREATE OR REPLACE FUNCTION {s}.inbox_next(ordering_keys uuid[]) RETURNS void LANGUAGE plpgsql {index} AS $$
BEGIN
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

-- inbox_turn is called before the handler of a job that is not the head, or no longer the oldest one. It
-- returns true if the job is both after inbox_next, and otherwise makes it pending. It locks the ordering key,
-- then as inbox_next.
CREATE OR REPLACE FUNCTION {s}.inbox_turn(of uuid, place timestamptz, this bigint, at timestamptz) RETURNS boolean LANGUAGE plpgsql {index} AS $$
BEGIN
	PERFORM set_config('synchronous_commit', 'off', true), {mark}, pg_advisory_xact_lock({lock} of, 0));
	INSERT INTO {s}.inbox_order VALUES (of, place, this, false) ON CONFLICT DO NOTHING;
	PERFORM {s}.inbox_next(ARRAY[of]);
	IF (SELECT l.job = this AND l.head FROM {s}.inbox_order l WHERE l.ordering_key = of ORDER BY l.order_at, l.job LIMIT 1) THEN RETURN true; END IF;
	UPDATE {s}.river_job SET state = 'pending', attempt = attempt - 1 WHERE id = this AND state = 'running' AND attempted_at = at;
	PERFORM {s}.inbox_next(ARRAY[of]);
	RETURN false;
END $$;

-- inbox_end is called after attempts. It records outcomes and returns their indexes, except those of overtaken
-- attempts, whose attempted_at differs. It locks the jobs, then objects in sorted order.
CREATE OR REPLACE FUNCTION {s}.inbox_end(outcomes jsonb) RETURNS SETOF integer LANGUAGE plpgsql {index} AS $$
BEGIN
	PERFORM {mark};
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
END $$;

-- inbox_release is called by the sweep. It makes jobs of dead processes available, and jobs of the caller without
-- a handler after a fetch long ago, and returns their number. The lost attempts count. It locks jobs
-- without waiting, because a locked one is about to end.
CREATE OR REPLACE FUNCTION {s}.inbox_release(reason text, caller text, held bigint[], patience interval) RETURNS integer LANGUAGE plpgsql {index} AS $$
DECLARE
	released integer;
BEGIN
	PERFORM {mark};
	UPDATE {s}.river_job j SET
		state = CASE WHEN j.metadata ? 'cancel_attempted_at' THEN 'cancelled' ELSE 'available' END::{s}.river_job_state,
		finalized_at = CASE WHEN j.metadata ? 'cancel_attempted_at' THEN clock_timestamp() END, scheduled_at = clock_timestamp(),
		metadata = jsonb_set(j.metadata - 'failure', '{failures}', coalesce(j.metadata->'failures', '[]')
			|| jsonb_build_object('at', clock_timestamp(), 'attempt', j.attempt, 'reason', reason)),
		errors = array_append(j.errors, jsonb_build_object('at', clock_timestamp(), 'attempt', j.attempt, 'error', reason, 'trace', ''))
	WHERE j.id IN (
		SELECT r.id FROM {s}.river_job r WHERE r.state = 'running' AND (
			NOT EXISTS (SELECT FROM {s}.inbox_worker w WHERE w.client = r.attempted_by[cardinality(r.attempted_by)])
			OR r.attempted_by[cardinality(r.attempted_by)] = caller AND r.id <> ALL (held)
				AND r.attempted_at NOT BETWEEN clock_timestamp() - patience AND clock_timestamp() + patience)
		FOR UPDATE SKIP LOCKED
	);
	GET DIAGNOSTICS released = ROW_COUNT;
	RETURN released;
END $$;

-- inbox_replay is called by Replay. It turns dead letters into waiting events with all attempts, and returns
-- their number. It locks the jobs in the order of their IDs, then their places.
CREATE OR REPLACE FUNCTION {s}.inbox_replay(jobs bigint[]) RETURNS bigint LANGUAGE sql {index} AS $$
	WITH dead AS MATERIALIZED (
		SELECT j.id FROM {s}.river_job j WHERE j.id = ANY (jobs) AND j.state IN ('cancelled', 'discarded') ORDER BY j.id FOR UPDATE
	), replayed AS (
		UPDATE {s}.river_job j SET
			state = CASE WHEN j.metadata ? 'ordering_key' THEN 'pending' ELSE 'available' END::{s}.river_job_state, attempt = 0,
			finalized_at = NULL, scheduled_at = now(), errors = '{}', metadata = j.metadata - 'cancel_attempted_at' - 'failure'
		FROM dead d WHERE j.id = d.id
		RETURNING j.id, j.metadata
	), place AS (
		INSERT INTO {s}.inbox_order (ordering_key, order_at, job, head)
		SELECT {s}.inbox_digest(r.metadata->>'ordering_key'), (r.metadata->>'order_at')::timestamptz, r.id, false FROM replayed r WHERE r.metadata->>'ordering_key' <> ''
		ON CONFLICT DO NOTHING -- then inbox_settle stores the place again
	) SELECT count(*) FROM replayed
$$;

-- inbox_stats is called by Stats. It reads only indexes, unless vacuum is late.
CREATE OR REPLACE FUNCTION {s}.inbox_stats() RETURNS TABLE (waiting bigint, running bigint, dead bigint, oldest timestamptz) LANGUAGE sql {index} AS $$
	SELECT (SELECT count(*) FROM {s}.river_job WHERE finalized_at IS NULL) - r.n, r.n, (SELECT count(*) FROM {s}.inbox_dead),
		(SELECT min(created_at) FROM {s}.river_job WHERE finalized_at IS NULL)
	FROM (SELECT count(*) AS n FROM {s}.river_job WHERE state = 'running') r
$$;

-- inbox_note is called by triggers after an attempt or job ends, and after a job is replayed or deleted, also by
-- another client of River, and after a person has truncated all jobs. It locks the row of a dead letter and,
-- for a deleted job, of the ledger. Truncated events do not count as discarded.
CREATE OR REPLACE FUNCTION {s}.inbox_note() RETURNS trigger LANGUAGE plpgsql {index} AS $$
BEGIN
	IF TG_OP = 'TRUNCATE' THEN
		DELETE FROM {s}.inbox_dead;
		DELETE FROM {s}.inbox_order;
		RETURN NULL;
	END IF;
	IF OLD.metadata->>'ordering_key' <> '' THEN
		INSERT INTO {s}.inbox_moves (ordering_key, order_at, job) VALUES ({s}.inbox_digest(OLD.metadata->>'ordering_key'), (OLD.metadata->>'order_at')::timestamptz, OLD.id);
	END IF;
	DELETE FROM {s}.inbox_dead d WHERE d.job = OLD.id;
	IF TG_OP = 'DELETE' THEN
		UPDATE {s}.inbox_ledger SET discarded_at = now() WHERE digest = {s}.inbox_key_digest(OLD.args->>'key');
	ELSIF NEW.state IN ('cancelled', 'discarded') THEN
		INSERT INTO {s}.inbox_dead VALUES (NEW.id, NEW.finalized_at, NEW.created_at, coalesce(NEW.metadata->>'type', ''), coalesce(NEW.metadata->>'clinic', ''),
			(SELECT {reason} FROM (SELECT NEW.metadata, NEW.errors) j), coalesce(NEW.args->>'key', ''),
			(SELECT coalesce(string_agg(r #>> '{}', E'\n'), '') FROM jsonb_path_query(NEW.metadata, '$.failures[*].request_id') r));
	END IF;
	RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER inbox_ended AFTER UPDATE ON {s}.river_job FOR EACH ROW WHEN (OLD.kind = '{kind}'
	AND (OLD.state = 'running' AND NEW.state <> 'running' AND OLD.metadata ? 'ordering_key' OR OLD.finalized_at IS DISTINCT FROM NEW.finalized_at
	AND (OLD.metadata ? 'ordering_key' OR OLD.state IN ('cancelled', 'discarded') OR NEW.state IN ('cancelled', 'discarded')))) EXECUTE FUNCTION {s}.inbox_note();
CREATE OR REPLACE TRIGGER inbox_deleted AFTER DELETE ON {s}.river_job FOR EACH ROW
	WHEN (OLD.state <> 'completed' AND OLD.kind = '{kind}') EXECUTE FUNCTION {s}.inbox_note();
CREATE OR REPLACE TRIGGER inbox_truncated AFTER TRUNCATE ON {s}.river_job FOR EACH STATEMENT EXECUTE FUNCTION {s}.inbox_note();

-- inbox_keep is called by a trigger before a transaction without the mark of the inbox ends an attempt. River
-- records attempts too, without checking whether they were overtaken. That must have no effect.
CREATE OR REPLACE FUNCTION {s}.inbox_keep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
CREATE OR REPLACE TRIGGER inbox_attempt BEFORE UPDATE ON {s}.river_job FOR EACH ROW WHEN (OLD.state = 'running' AND NEW.state <> 'running'
	AND OLD.kind = '{kind}' AND current_setting('dispensary.inbox', true) IS DISTINCT FROM 'on') EXECUTE FUNCTION {s}.inbox_keep();

INSERT INTO {s}.inbox_schema (id, version, oldest) VALUES (1, 1, 1) ON CONFLICT (id) DO UPDATE SET version = excluded.version, oldest = excluded.oldest;
