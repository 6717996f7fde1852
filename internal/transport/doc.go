// Package transport carries every call to the platform through one pipeline:
//
//	authorize → preflight → limit → retry → send → read → decode, or explain
//
// The links are put together in a single function, [Client.send]. Services see
// only the verbs [One], [Do], [List], [Pages], [All] and [Raw], which keep each
// of their methods a few lines long.
package transport
