// Package view encodes the platform's resources as JSON, for responses and for the data of
// events.
package view

import (
	"bytes"
	"encoding/json"
	"maps"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/rules"
)

// Encode returns the JSON of a value.
func Encode(v any) json.RawMessage {
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		panic(err) // reachable only with a view of a type that JSON does not support
	}
	return bytes.TrimRight(body.Bytes(), "\n")
}

// Rewriter returns a function that rewrites bodies before they are sent, or nil.
func Rewriter(r *rules.Set) func([]byte) []byte {
	if !r.DropNulls {
		return nil
	}
	return func(body []byte) []byte {
		var document any
		decoder := json.NewDecoder(bytes.NewReader(body))
		decoder.UseNumber()
		if err := decoder.Decode(&document); err != nil {
			panic(err) // only our own bodies are rewritten
		}
		dropNulls(document)
		return Encode(document)
	}
}

// dropNulls deletes every key without a value, except those of meta, which the API shows
// as null.
func dropNulls(document any) {
	switch value := document.(type) {
	case map[string]any:
		maps.DeleteFunc(value, func(_ string, member any) bool { return member == nil })
		for key, member := range value {
			if key != "meta" {
				dropNulls(member)
			}
		}
	case []any:
		for _, item := range value {
			dropNulls(item)
		}
	}
}

// NullText returns nil if s is empty.
func NullText(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// Time formats a timestamp as ISO 8601 in UTC.
func Time(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// NullTime formats a time. It returns nil if t is zero.
func NullTime(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	s := Time(t)
	return &s
}

// NullDay formats a date. It returns nil if t is zero.
func NullDay(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	s := t.UTC().Format(time.DateOnly)
	return &s
}
