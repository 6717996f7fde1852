// Package transport sends every call to the platform through one pipeline. [newPipeline]
// composes it from these steps, called links.
//
//	buildErrors      errors.go     turns every failure into an *api.Error
//	prepareRequest   call_state.go checks the arguments, sends no request
//	captureResponse  call_state.go stores the headers for api.CaptureResponse
//	authorize        authorize.go  token and scopes; one retry with a fresh token after a 401
//	sendWithRetries  attempt.go    waits, sends, reads and logs; retries as the policy allows
//
// Three parts protect records from other software on the way: request_fields.go rejects text
// that JSON would change, response.go decides which responses come from the platform, and
// failure.go prevents net/http from repeating a write.
//
// Services see only the functions of verbs.go, which also decode successful responses, of list.go
// and of ensure.go, so each of their methods has a few lines. A file uses only the files of the
// layers below it: links use the state of the call, the state uses the client, and all of them
// use the response, the failures and the headers.
package transport
