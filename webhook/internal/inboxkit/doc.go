// Package inboxkit implements the parts that all inboxes of this module share. An inbox adds
// only the code for its storage:
//
//	Accept ─► Worker.OrderingKeys, SealBody ─► Batcher ─► stored
//	claimed ─► OpenBody ─► Worker.Do ─► Lifecycle.Record ─► the outcome is stored
//
// Each inbox accepts events in its own way. To handle a due event, it claims the event,
// decrypts its body with [OpenBody], and calls [Worker.Do] with a function that records the
// outcome. Attempt.Result is the outcome to record.
//
// [ResealPages] implements Reseal for an inbox that encrypts. [InBatches] implements Replay,
// Discard and HandleNow. [Missing] implements Missing of a reconcile.Inbox.
package inboxkit
