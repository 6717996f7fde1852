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
// It keeps every promise of [engine.Engine], including order. When Accept returns, the event
// is in the write-ahead log and the log is synced (synchronous=FULL), so the event survives a
// crash of the process and of the machine. Concurrent accepts share one sync. During a flood of
// events, an accept waits up to 30 ms longer, so that handlers keep most of their speed.
//
// Retries are due by the clock of the machine. An event whose handler has not returned 30 seconds
// after its timeout is handled again.
//
// Bodies and the texts of errors are encrypted. Keys, types, clinic IDs, times, reasons, request
// IDs and ordering keys, which are digests, are not. The inbox deletes the body of a handled
// event at once and keeps its key. [Inbox.Reseal] retires a key of the
// ring.
//
// # Disk space
//
// A handled event takes about 250 bytes for 31 days. New events use the room of its body
// again. The file keeps the size of its largest backlog. To shrink it, run VACUUM from any
// connection, also while the inbox is open. Accepts wait meanwhile.
//
// If the disk has less free space than [Config].MinFreeBytes, Accept fails with [ErrFull], and
// the platform sends the events again later. Events in the inbox are still handled, and
// the inbox can be closed and opened. It accepts events again as soon as there is room.
// Linux, macOS, FreeBSD and Windows have the check. If the program limits the database (PRAGMA max_page_count), Accept
// also leaves 64 pages to the outcomes of events.
//
// # One process
//
// The file belongs to one process. [Open] and [New] fail with [ErrInUse] in a second one,
// because of a lock on a file beside the database and, on Linux, a lock on the database itself.
// Both locks end with the process. The next start handles the events again that a dead process
// was handling. Use a local disk: SQLite loses data on a network file system. For several
// processes use an engine on a server's database, or a broker: with this one each process
// would have its own queue.
//
// # Replaced files
//
// If another program moves, removes or replaces the database, its log (-wal) or its lock file
// (.lock) while the inbox is open, the next start would not find the events that are
// accepted from then on. The inbox therefore compares the paths with its open files
// before and after each commit. At the first difference it logs an error, accepts and
// handles no more events, and fails with [api.ErrReplaced]. Restart the process. The platform
// sends the rejected webhooks again.
//
// [Open] fails with [api.ErrUnsafePath] if the database has a second hard link or is mounted
// alone into a container, because its log would stay behind. Mount the folder.
//
// On Linux the package switches modernc.org/sqlite to open file description locks, for all
// databases of the process. With POSIX locks, a program that reads its own database file
// would lose the locks of SQLite when it closes the file, and sqlite3 in a shell could then
// remove the log. A program that opens a database before its main function runs keeps
// POSIX locks. The inbox then stops with [api.ErrReplaced] once its log is removed.
//
// # Backup and restore
//
// Back up the inbox with SQL while the process runs, from any connection to the file:
//
//	sqlite3 inbox.db "VACUUM INTO '/backup/inbox.db'"
//
// Do not copy the file: recent commits are only in its log. SQLite creates the backup
// readable for everyone as far as the umask permits, so write it to a private folder.
//
// To restore a backup:
//
//  1. Stop the process.
//  2. Remove inbox.db-wal and inbox.db-shm. They belong to the old database and would
//     corrupt the backup.
//  3. Replace inbox.db with the backup and start the process.
//  4. Let package reconcile run. It accepts the events that the backup lacks, if they are
//     at most 30 days old.
//
// Events that were handled after the backup are handled again.
//
// # Your own tables
//
// [New] takes a database that the program has opened with the name from [DSN], so that events
// and the program's tables share a file. [InTransaction] then writes the rows of a handler in
// the transaction that stores the event as handled, so an effect happens exactly once. SQLite
// has one writer: a program that writes much, or for long, should use a separate file.
//
// # Tables
//
//   - dispensary_inbox: the events, and the keys of those that were handled
//   - dispensary_inbox_causes: the number of dead letters for each reason, type and clinic
//   - dispensary_inbox_bodies: their bodies, and the texts of errors, sealed
//   - dispensary_inbox_newest: the time of the newest event of each object
//   - dispensary_inbox_checkpoints: how far a reconciler has come
//
// [Open] creates the tables. A program that uses [New] calls [Migrate] before. [Schema] returns
// the SQL of the tables, for a program that applies it with another tool.
package sqlinbox
