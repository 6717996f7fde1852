// Package transport carries every call to the platform through one pipeline, which
// [newPipeline] composes: each link is a step with its own file and test.
//
//	buildErrors      errors.go     every failure becomes an *api.Error
//	prepareRequest   call_state.go arguments are checked, nothing is sent
//	captureResponse  call_state.go headers for those who asked
//	authorize        authorize.go  token and scopes; once more with a fresh token after a 401
//	sendWithRetries  retry.go      again while the policy says so; each attempt is
//	                               limit.go (wait), attempt.go (send, read, log)
//
// Three files protect records from the surroundings: utf8.go rejects text that JSON would
// change, trust.go decides which responses come from the platform, and connection.go keeps
// net/http from repeating a write.
//
// An answer of success is decoded in decode.go. Services see only the verbs of
// verbs.go, which keep each of their methods a few lines long. Files use only
// what is below them: links use the call's state, the state uses the client, and all of
// them use the answer, the failures and the headers.
package transport
