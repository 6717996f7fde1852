// Package key has the key under which a context stores the priority of its requests.
package key

// Priority is the key of a context value of type api.Priority.
type Priority struct{}
