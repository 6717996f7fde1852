package hidden

// PriorityKey is the key of a context value of type api.Priority.
type PriorityKey struct{}
