// Package sqlinbox keeps webhook events in a SQLite database and works them off
// in the same process. It is the inbox for programs that run once: one file,
// nothing to install, no cgo.
//
//	inbox, err := sqlinbox.Open("inbox.db", sqlinbox.Config{
//		Work: webhook.Work{Handle: router.Dispatch, Order: webhook.ByObject},
//		Seal: ring, // a seal.KeyRing, or a Tink keyset
//	})
//	…
//	handler, err := webhook.NewHandler(webhook.Config{Inbox: inbox, …})
//	…
//	defer inbox.Close(shutdownContext)
//
// # What it promises
//
// It keeps every promise of [webhook.Engine], order included. When Accept
// returns, the event is in the write-ahead log and the log has been synced to
// the disk (synchronous=FULL): it survives the end of the process, and that of
// the machine as far as the disk keeps its word. Accepts that come at the same
// time share one sync; a lonely one waits for nobody.
//
// Bodies and the texts of errors are sealed. In clear are keys, types, clinic
// ids, times, reasons, and subjects, which are digests. A body is deleted when
// its event has been handled; the key stays for Retention. [Inbox.Reseal] retires
// a key of the ring.
//
// # One process
//
// The file belongs to one process at a time: a second one is refused with
// [ErrInUse], by a lock on a file beside the database that ends with the process
// however it ends. The events that a dead process was handling are handled again
// at the next start, at once. Put the file on a disk of the machine; SQLite on a
// network file system loses data. A program that runs on several machines, or
// several times on one, needs an engine on a server's database or a broker: this
// one would make a queue of its own for each, which nobody else sees.
//
// # Your own tables
//
// [New] takes a database that the program has open, so that events and the
// program's tables can live in one file. [InTransaction] then lets a handler
// write its rows in the transaction that notes the event as handled: both or
// neither, which is the only way to have an effect exactly once.
//
// Programs that write to the file much, or for long, make accepts wait: SQLite
// has one writer. A file of its own is the better choice for all others.
//
// # Upgrades
//
// [Open] brings the tables up to date. With [New] that is the program's to do,
// with [Migrate], which can be run any number of times.
package sqlinbox
