// Package key contains the context key for the priority of requests.
package key

// Priority is the key of a context value of type api.Priority.
type Priority struct{}
