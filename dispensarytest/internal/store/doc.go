// Package store is the world of one platform: its rows in tables that are copied on
// write, how they are listed and searched, how a world is generated from a seed, and how
// it is saved.
//
// Locks are taken in this order, and only in this order:
//
//  1. the run token of clock.Clock, which is held while a task of the clock runs
//  2. [Store], the lock of the world
//  3. tokens.Store
//  4. webhooks.Sender
//  5. faults.Set
//  6. clock.Clock
//  7. clock.Notifier
//
// An action holds the second while its event is handed to the sender, which is why the
// sender never takes it. None but the first is held while a request is made.
package store
