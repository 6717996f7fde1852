// Package riverinbox stores webhook events in PostgreSQL and uses River (https://riverqueue.com)
// as the queue. Several processes can share an inbox: each accepts and handles events.
//
// # Guarantees
//
// The inbox implements every guarantee of [engine.Engine] across processes. Accept returns after the
// commit. Concurrent calls of Accept share a transaction.
//
// If a process dies, another process handles its events within 40 seconds: after
// [Config].TakeOver, plus a few seconds. If a process cannot write to the database, the contexts of
// its handlers end after 20 seconds. If a handler runs for 10 more seconds, another process can
// handle the event at the same time, or the next event of its ordering key. The late outcome of
// the first handler has no effect. A process that could not write for 20 seconds itself does not
// judge whether others have died, until it has watched them for another TakeOver.
//
// The clock of the database decides when a retry is due. The body of a handled event is deleted
// within two minutes.
//
// # Jobs in River's UI
//
// Each event is a job, created when the event arrived. Its arguments are the key and the encrypted
// body. An available, retryable or running job is an event to handle. A pending job waits for an
// older event of its ordering key. A cancelled job is a dead letter. A completed job stays for a
// minute.
//
//   - Retry of a dead letter adds one attempt, in order with the waiting events of its ordering
//     key. [Inbox.Replay] adds all attempts.
//   - Retry of a pending job does not change its place. Retry of a completed job handles the event
//     again.
//   - Cancel turns an event into a dead letter. Delete discards an event. After TRUNCATE of River's
//     jobs, the inbox still recognizes the events.
//   - Pause stops the queue in all processes.
//   - Only the inbox ends a running job. A trigger ignores all other changes of its state, also by
//     hand. To change one by hand, set dispensary.inbox to on in the transaction.
//
// # Database
//
// The package is tested on PostgreSQL 15 and behind PgBouncer 1.24 in transaction mode. For
// PgBouncer, set [Config].PollOnly, and pgx.QueryExecModeExec on the pool. With that mode, DateStyle
// must begin with ISO, as by default.
//
// The inbox and River need a schema of their own, by default dispensary_inbox, because River's leader
// applies its settings to all jobs of a schema. If the program has other jobs, use another schema for
// them. A handler can insert them in the transaction of [InTransaction]. If another client of River
// starts in the schema of the inbox, Open fails, and running processes log an error. Open creates the
// schema and the tables. [Schema] returns the SQL for other migration tools. Triggers on River's jobs
// record dead letters and discarded events.
//
// Autovacuum must be on. While a transaction stays open, vacuum cannot free the space of handled
// events: about three times their bodies. The inbox needs READ COMMITTED transactions. If that is
// not the default, set default_transaction_isolation in the RuntimeParams of the pool. With more
// than 30 processes, raise max_locks_per_transaction.
//
// # Upgrades
//
// Table inbox_schema contains the version of the schema, and the oldest version whose release can
// still use it. A release can replace functions and add tables or columns if the release before it
// can continue. Otherwise it raises the oldest version. [Open] and [Migrate] migrate an older schema,
// also while processes of the release before continue. [New] and [Open] fail with a
// [*api.SchemaError] if the schema is older, or if it no longer admits their release. So start one
// process of a new release first, then replace the others. To return to the previous release, replace
// the processes in the same way. Migrate of the previous release changes nothing then. If a restore
// or a tool has lost or changed a function or trigger, Open and Migrate create it again.
//
// River has the Mozilla Public License 2.0, for River's own files and not for yours.
package riverinbox
