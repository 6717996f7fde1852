// Package enginetest tests the promises of an [engine.Engine].
//
// [Run] tests the claims of a [Storage] and the rest of the contract. It skips a test that
// needs a claim or a hook that the storage lacks. An engine that is a [reconcile.Inbox] is
// tested as one, and its method Reseal is tested if the storage has OpenSealed. [Checkpoints]
// is for an inbox that is no engine.
//
// The suite retries after milliseconds, by its own [webhook.RetryPolicy], and depends on no
// duration, except that Storage.Patience bounds each wait.
package enginetest
