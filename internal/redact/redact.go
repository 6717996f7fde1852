// Package redact prints models by their type and id only, so no log line and no error shows
// the content of a record.
package redact

import (
	"fmt"
	"io"
	"log/slog"
)

// Format writes "clinic.Patient(id)" for every verb.
func Format(f fmt.State, typ, id string) {
	_, _ = io.WriteString(f, typ+"("+id+")")
}

// LogValue returns typ and id as a group.
func LogValue(typ, id string) slog.Value {
	return slog.GroupValue(slog.String("type", typ), slog.String("id", id))
}
