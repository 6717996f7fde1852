// Package httpapi answers the calls of the API: the pipeline that every request takes,
// the router, parameters and bodies, the handlers by resource, the token endpoints and the
// authorize page. Its collaborators are the fields of [API].
//
// A request takes this way: [API.ServeHTTP] finds the operation, meets the faults, checks
// token, clinic key and scope, reads page, query and body, runs the handler under the
// store's lock, and writes the answer; the journal has it before its first byte is sent.
package httpapi
