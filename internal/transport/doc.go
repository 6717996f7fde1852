// Package transport sends every call to the platform through one pipeline. [newPipeline]
// composes it from these steps, called links. Each link has its own file and test.
//
//	buildErrors      errors.go     turns every failure into an *api.Error
//	prepareRequest   call_state.go checks the arguments, sends no request
//	captureResponse  call_state.go stores the headers for api.CaptureResponse
//	authorize        authorize.go  token and scopes; one retry with a fresh token after a 401
//	sendWithRetries  retry.go      retries as the policy allows; each attempt is
//	                               limit.go (wait), attempt.go (send, read, log)
//
// Three files protect records from other software on the way: utf8.go rejects text that JSON
// would change, trust.go decides which responses come from the platform, and connection.go
// prevents net/http from repeating a write.
//
// decode.go decodes successful responses. Services see only the functions of verbs.go, so each
// of their methods has a few lines. A file uses only the files of the layers below it: links
// use the state of the call, the state uses the client, and all of them use the answer, the
// failures and the headers.
package transport
