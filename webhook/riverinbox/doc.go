// Package riverinbox keeps webhook events in PostgreSQL, with [River] as the queue. It is the
// inbox for programs of several processes: all of them accept, and all of them handle.
//
//	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
//	…
//	inbox, err := riverinbox.Open(ctx, pool, riverinbox.Config{
//		Work: webhook.Work{Handle: router.Dispatch, Order: webhook.ByPatient},
//		Seal: ring, // a seal.KeyRing, or a Tink keyset; the same in all replicas
//	})
//	…
//	handler, err := webhook.NewHandler(webhook.HandlerConfig{Inbox: inbox, …})
//	…
//	defer inbox.Close(shutdownContext)
//
// # What it promises
//
// It keeps every promise of [engine.Engine], order included, over all replicas. When Accept
// returns, the event has been committed. Deliveries that wait at the same time share a
// transaction. Behind an asynchronous standby, or with synchronous_commit off, a commit promises
// only what these promise.
//
// An event whose worker died is handled by another one half a minute later ([Config].TakeOver),
// and the few seconds until somebody looks. A process that cannot reach the database ends the
// contexts of its handlers after 20 seconds. A handler that goes on for 10 seconds after that may
// be overtaken: its event is handled again beside it, and so may be the next one of its ordering
// key. What the overtaken handler returns changes nothing.
//
// Retries are due by the clock of the database. A body is deleted a minute or two after its event
// was handled.
//
// # What River shows
//
// Each event is a job, whose arguments are the key and the sealed body. In River's UI
//
//   - available, retryable and running jobs are events that wait or are being handled, with the
//     reasons of attempts that failed;
//   - pending jobs wait for an older event of their ordering key;
//   - cancelled jobs are dead letters, which stay until they are replayed or discarded;
//   - completed jobs are events that were handled in the last minute.
//
// Retry gives a dead letter one more attempt, in its place among the waiting events of its
// ordering key. [Inbox.Replay] gives it all of them. Retry of a pending job does not change its
// place, and that of a completed one handles the event again. Cancel makes a dead letter of an
// event. Delete discards it. A queue that is paused there is paused.
//
// # The database
//
// What River supports. It is tested on PostgreSQL 15, also behind PgBouncer 1.24 in transaction
// mode: set [Config].PollOnly, and pgx.QueryExecModeExec on the pool.
//
// The inbox and River's tables need a schema of their own: River's leader applies its settings,
// and its kinds of jobs, to every job in its schema. A program with other jobs uses another
// schema for them, and may insert them in the transaction of [InTransaction]. Open creates the
// schema and the tables. A program that must not create tables applies [Schema] with another
// tool. The role needs the rights of the tables' owner to make a partition for each day.
// Without them inbox_undated takes the digests, which is slower in the long run.
//
//   - river_job: the events, in a minute of which everything that was handled is deleted
//   - inbox_ledger: 16 bytes for each event that was accepted in the last 31 days, in partitions by
//     the day of its creation, and inbox_undated for events without such a day
//   - inbox_line: the waiting jobs of each ordering key
//   - inbox_worker: a row for each process
//   - inbox_newest: the time of the newest event of each object
//   - inbox_checkpoints: how far a reconciler has come
//
// Vacuum has to be on. A transaction that is left open for long keeps it from all tables, as
// anywhere in PostgreSQL: what is handled meanwhile takes space, about three times its body, which
// is used again later. Transactions of the inbox are READ COMMITTED: where the database has
// another default, set default_transaction_isolation in the RuntimeParams of the pool.
//
// Every replica should have the same Work.Order: an event keeps the ordering key that it was
// accepted with. More than 40 replicas that accept ordered events need a larger
// max_locks_per_transaction.
//
// # Licence
//
// River is under the Mozilla Public License 2.0, which covers River's own files and not yours.
//
// [River]: https://riverqueue.com
package riverinbox
