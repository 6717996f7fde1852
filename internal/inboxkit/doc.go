// Package inboxkit contains the parts that the inboxes of this module share, so that each
// inbox contains only the code for its storage:
//
//	Accept ─► Worker.OrderingKeys, SealBody ─► Batcher ─► stored
//	claimed ─► OpenBody ─► Worker.Do ─► Lifecycle.Record ─► the outcome is stored
//
// Accepting differs per inbox. Handling is [Worker.Do]: an inbox claims each due event, opens
// its body with [OpenBody], and calls Do with a function that records the outcome.
// Attempt.Result states the outcome to record.
//
// [ResealPages] implements Reseal for an inbox that encrypts, [InBatches] implements Replay,
// Discard and HandleNow, and [Missing] is for a reconcile.Inbox.
package inboxkit
