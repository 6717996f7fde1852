// Package riverinbox keeps webhook events in PostgreSQL and has River work them
// off. It is the inbox for programs of several processes, on one machine or on
// twenty: all replicas accept, and all of them handle.
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
// It keeps every promise of [engine.Engine], order included, over all replicas.
// When Accept returns, event and job have been committed, in one transaction: the
// event survives the end of the process, and whatever the database survives.
// Deliveries that wait at the same time share a transaction; a single one does not
// wait for others. Behind an asynchronous standby, or with synchronous_commit off, a
// commit promises only what these promise.
//
// An event whose worker died is handled by another one when its lease has ended
// and a worker has looked: within about one and a half times [Config.Lease], which
// is 45 seconds by default. Jobs that such a process had fetched and not begun take
// a minute and a half. Workers extend their leases while handlers run, so a
// handler may take as long as [webhook.Work] says. One that cannot, because the
// database is out of reach, has its context ended before the lease does. Nothing
// is locked, and no transaction is open, while a handler runs.
//
// Bodies and the texts of errors are sealed. In clear are keys, types, clinic
// ids, times, reasons, and ordering keys, which are digests. When an event has been
// handled, a digest of its key stays for Retention; its body, sealed, goes with the
// bodies of the day on which it was accepted, at the end of the next day.
//
// # What River does
//
// Each new event has a plain job, in the queue [Queue]. It says which
// ordering key has something due, or the key of an event that has none, and nothing
// else. The job of one event may handle several of its ordering key, or find
// that another one has, and while a replica works on an ordering key the jobs of others
// wait. Fetching, workers, the election of a leader, and the clearing of old jobs
// are River's.
//
// When an event is due again is said by [webhook.RetryPolicy], and kept in the
// inbox. River gets the same time, so that its UI shows it:
//
//   - completed: what was due has been handled
//   - retryable: an event failed; the job's errors have its key and the reason,
//     and the time is that of the next attempt
//   - discarded and cancelled: an event was given up, after its last attempt or
//     for good; it is a dead letter
//   - scheduled: the job waits for a replica that works on the ordering key, or for an
//     event that failed
//
// Claims that workers make at the same time share a transaction, and so do the outcomes of
// what they have handled, as accepts do: 64 at most. So a slow disk does not make the handling
// of a backlog slow, and most of the pool's connections are left to handlers. The client of
// [Open] fetches every 10 ms at most, or for each worker one millisecond where that is longer,
// up to a quarter of a second. Where thousands of events come in a few seconds, and above all
// while a transaction is open that keeps vacuum from the jobs that are done, many workers (256)
// cost less than few: they fetch more at once, and share more.
//
// Dead letters are those of the inbox: [Inbox.List], [Inbox.Replay] and
// [Inbox.Discard]. Retrying, cancelling or deleting a job in River's UI neither
// replays nor loses an event, for one that is due and has no job gets another. A
// queue that is paused there is paused. River's own uniqueness is not used, as it
// ends a day after a job.
//
// # Your own client, your own transactions
//
// [Open] makes a River client, which [Config.River] configures. A program that
// has one uses [New], and [Inbox.AddTo] before it makes its client: queue and
// worker are added to its own. Handlers find the client in their context, with
// [river.ClientFromContext].
//
// [InTransaction] lets a handler write its rows, and insert its jobs, in the transaction that
// stores the event as handled: both or neither, which is the only way to have an effect exactly
// once.
//
// # The database
//
// What River supports; it is tested on PostgreSQL 15. Open creates the tables that are missing. A
// program that uses [New], or must not create tables, calls [Migrate] and [MigrateRiver] before,
// or applies [Schema] and [SchemaRiver], which return the SQL, with another tool. [Tables] names
// the schemas of the tables:
//
//   - dispensary_inbox: the events that are to be handled, and dead letters
//   - dispensary_inbox_ledger: 16 bytes of each event that was handled or discarded, in
//     partitions by the day of its creation
//   - dispensary_inbox_bodies: the bodies, in partitions by the day on which they came
//   - dispensary_inbox_lines: the claims, which say what ordering keys and events the workers
//     are at. An event is not changed while it is handled
//   - dispensary_inbox_newest: the time of the newest event of each object
//   - dispensary_inbox_checkpoints: how far a reconciler has come
//   - those whose names begin with river_, and their types and functions: River's own
//
// Each replica makes the partitions of the next days, and drops those whose time is over:
// of the ledger after Retention, of bodies after two days, dead letters keeping theirs.
// An accept waits for that for 20 ms at most: it is put off while a transaction is open that
// uses them. It needs the rights of the owner of the tables. Without them, and for an event
// that does not say when it was created, or says more than Retention ago, a row of
// dispensary_inbox takes the place of the digest, and is deleted when Retention is over.
//
// Vacuum has to be on. Migrate sets it to come by what changes in these tables and not by
// their size. A transaction that is left open for long keeps it from all of them, as
// anywhere in PostgreSQL: what is handled meanwhile takes space, and is vacuumed after it. That
// space is used again, and not given back: no accept has to wait while a file is cut off.
//
// What River changes between its versions is in its own change log.
//
// The transactions of the inbox are READ COMMITTED, the default of PostgreSQL. Where a
// database or a role has a stricter one, set default_transaction_isolation to "read
// committed" in the RuntimeParams of the pool: with another one events are accepted
// and handled more slowly, or again.
//
// Behind PgBouncer in transaction mode set PollOnly in [Config.River], and on the
// pool pgx.QueryExecModeExec. Then jobs are found by polling, every second if
// River's FetchPollInterval does not say otherwise. The tests of this package, the
// one that kills receivers among them, pass so with PgBouncer 1.24. PgBouncer 1.18
// ends itself when a query is cancelled at the wrong moment: take a newer one.
//
// Order, attempts and leases go by the clock of the database. Every replica
// should have the same Work.Order: an event keeps the ordering key that it was
// accepted with.
//
// # Licence
//
// River is under the Mozilla Public License 2.0, which covers River's own files and
// not yours. List it in the notices of your program.
package riverinbox
