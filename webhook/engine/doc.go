// Package engine is what the authors of an engine meet: an inbox that stores the
// events it accepts, and handles them. Programs that receive webhooks need little of
// it; they open an engine, such as package sqlinbox.
//
// [Engine] is the contract. The rest is what all engines have in common, so that
// each of them contains only the code for its database:
//
//	Accept ─► Worker.OrderingKeys, SealBody ─► Batcher ─► stored
//	claimed ─► OpenBody ─► Worker.Do ─► Lifecycle.Record ─► the outcome is stored
//
// [ResealPages] implements Reseal for an engine that encrypts, and [Missing] is for those
// that are a reconcile.Inbox.
package engine
