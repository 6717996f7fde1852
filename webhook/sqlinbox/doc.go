// Package sqlinbox stores webhook events in a SQLite database and handles them in the same
// process. It is the inbox for programs of one process: one file, nothing to install, no cgo.
//
//	inbox, err := sqlinbox.Open("inbox.db", sqlinbox.Config{
//		Work: webhook.Work{Handle: router.Dispatch, Order: webhook.ByObject},
//		Seal: ring, // a seal.KeyRing, or a Tink keyset
//	})
//	…
//	handler, err := webhook.NewHandler(webhook.HandlerConfig{Inbox: inbox, …})
//	…
//	defer inbox.Close(shutdownContext)
//
// # Delivery guarantees
//
// The inbox implements every guarantee of [engine.Engine], including order. When Accept
// returns, the event is in the write-ahead log and the log is synced (synchronous=FULL), so
// the event survives a crash of the process and of the machine. Concurrent accepts share one
// sync. During a flood of thousands of events a second, accepts come first, and handlers reach
// an eighth to a quarter of their speed.
//
// The clock of the machine decides when a retry is due. If a handler has not returned 30
// seconds after its timeout, its event is handled again.
//
// # Privacy
//
// Bodies and the texts of errors are encrypted. Keys, types, clinic IDs, times, reasons,
// request IDs and ordering keys, which are digests, are stored in clear text. The inbox
// deletes the body of a handled event at once and keeps its key. [Inbox.Reseal] retires a key
// of the ring.
//
// # Disk space
//
// A handled event occupies about 250 bytes for 31 days. New events reuse the space of its
// body. The file keeps the size of its largest backlog. To shrink it, run VACUUM from any
// connection, even while the inbox is open. Accepts wait until it ends.
//
// If the disk is full, Accept fails, the handler responds with 503, and the platform sends the
// event again later. No event of the inbox is lost, but none is handled either: handlers that
// have returned wait until there is room for their outcomes, and no others start. If the
// process ends before, their events are handled again. Make room to continue.
//
// # One process
//
// The file belongs to one process. [Open] and [New] fail with [ErrInUse] in a second one,
// because of a lock on a file beside the database and, on Linux, a lock on the database
// itself. Both locks end with the process. After a crash, the next start handles the running
// events again. Use a local disk: SQLite loses data on a network file system. For several
// processes, use an engine on a database server, or a broker. With this inbox, each process
// would have its own queue.
//
// # Replaced files
//
// Another program might move, remove or replace the database, its log (-wal) or its lock file
// (.lock) while the inbox is open. The next start would then not find the events accepted
// since. The inbox therefore compares the paths with its open files before and after each
// commit. At the first difference, it logs an error, stops accepting and handling events, and
// fails with [api.ErrReplaced]. Restart the process. The platform sends the rejected webhooks
// again.
//
// [Open] fails with [api.ErrUnsafePath] if the database has a second hard link or is mounted
// alone into a container, because its log would stay behind. Mount the folder.
//
// On Linux the package switches modernc.org/sqlite to open file description locks, for all
// databases of the process. With POSIX locks, a program that reads its own database file would
// lose the locks of SQLite when it closes the file, and sqlite3 in a shell could then remove
// the log. If a program opens a database before its main function runs, it keeps POSIX locks.
// The inbox then stops with [api.ErrReplaced] once its log is removed.
//
// # Backup and restore
//
// Back up the inbox with SQL while the process runs, from any connection to the file:
//
//	sqlite3 inbox.db "VACUUM INTO '/backup/inbox.db'"
//
// Do not copy the file, because recent commits are only in its log. SQLite creates the backup
// readable for everyone as far as the umask permits, so write it to a private folder.
//
// To restore a backup:
//
//  1. Stop the process.
//  2. Remove inbox.db-wal and inbox.db-shm. They belong to the old database and would corrupt
//     the backup.
//  3. Replace inbox.db with the backup and start the process.
//  4. Let package reconcile run. It accepts the events missing in the backup, if they are at
//     most 30 days old.
//
// Events that were handled after the backup are handled again.
//
// # Your own tables
//
// [New] uses a database that your program has opened with the name from [DSN], so events and
// your tables share a file. [InTransaction] then writes the rows of a handler in the
// transaction that stores the event as handled, so an effect happens exactly once. SQLite has
// one writer: if your program writes often or for long, use a separate file.
//
// # Tables
//
//   - dispensary_inbox: the events, and the keys of handled events
//   - dispensary_inbox_causes: the number of dead letters for each reason, type and clinic
//   - dispensary_inbox_bodies: encrypted bodies and texts of errors
//   - dispensary_inbox_newest: the time of the newest event of each object
//   - dispensary_inbox_checkpoints: the progress of a reconciler
//
// [Open] creates the tables. If you use [New], call [Migrate] first. [Schema] returns the SQL
// of the tables for other migration tools.
package sqlinbox
