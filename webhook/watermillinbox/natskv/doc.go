// Package natskv keeps the entries of a [watermillinbox.Inbox] in NATS JetStream,
// so that a shop on NATS needs nothing else.
//
//	js, err := jetstream.New(conn)
//	store, err := natskv.Open(ctx, js, natskv.Config{Replicas: 3})
//
// It uses two key-value buckets: one for what is to be handled, which is small,
// and one for the events themselves and the keys that stay behind. `nats kv` shows
// them. They are made by [Open], because ordinary buckets forbid what deleting by
// comparison needs.
//
// # How durable
//
// As durable as the server is made, and its default is not: JetStream acknowledges
// what the operating system has, and syncs the disk every two minutes, so that a
// machine that loses its power loses acknowledged events. Set
//
//	jetstream { sync_interval: always }
//
// for each server, and have three replicas in three places. The end of a server
// process loses nothing either way.
//
// Reads may be answered by a replica that lags. The inbox is right all the same:
// what decides is always a write, which the leader compares; it may be late,
// though, by as much as [watermillinbox.Config] says for Sweep.
//
// The server has to be 2.9 or later; lists are made much faster by 2.10.
package natskv
