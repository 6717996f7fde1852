// Package memoryinbox is an engine in the memory of the process. Use it in tests, to try the
// library, or if your program finds every missed event in another way.
//
//	inbox, err := memoryinbox.New(memoryinbox.Config{Work: webhook.Work{Handle: router.Dispatch}})
//
// The inbox is not durable. If the process dies, it loses events that were acknowledged but not
// yet handled. After a restart it does not recognize duplicates, and two processes share no keys.
// Retries are due by the clock of the process.
//
// Package sqlinbox stores events in a file, and package riverinbox in PostgreSQL. All three take
// the same [webhook.Work].
package memoryinbox
