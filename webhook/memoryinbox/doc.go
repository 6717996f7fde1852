// Package memoryinbox is an engine in the memory of the process, for tests, for
// trying things out, and where every missed event is found in another way.
//
// It is not durable: what was acknowledged and is not yet handled is lost when the
// process dies, and a restarted process, or a second one, does not recognise
// duplicates. Retries are due by the clock of the process.
//
// Package sqlinbox keeps events in a file, and package riverinbox in PostgreSQL; all three
// take the same [webhook.Work].
package memoryinbox
