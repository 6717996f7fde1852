// Package enginetest holds an implementation of [engine.Engine] to its contract.
// The engines of this module pass it, and it is for engines of others too:
//
//	func TestEngine(t *testing.T) {
//		enginetest.Run(t, func(t *testing.T) enginetest.Storage {
//			path := filepath.Join(t.TempDir(), "inbox.db")
//			return enginetest.Storage{
//				Durable: true,
//				Ordered: true,
//				Open: func(work webhook.Work) (engine.Engine, error) {
//					return myengine.Open(path, work)
//				},
//			}
//		})
//	}
//
// An engine is held to what its [Storage] claims, and to the rest of the contract
// in any case. What needs a claim, or a hook, that is not there is skipped with
// a line that says so: a suite that skips what the engine's documentation
// promises proves nothing about it.
//
// An engine that is a [reconcile.Inbox] is held to that as well, and one with
// the method Reseal if the storage has OpenSealed. [Checkpoints] is for an inbox that
// is no engine.
//
// Waits are those of the suite's own [webhook.RetryPolicy], milliseconds; nothing
// depends on how long anything takes, except that Storage.Patience bounds how
// long the suite waits for what has to happen.
package enginetest
