// Package view is the JSON of the platform's resources, as answers and the data of events
// show them.
package view

import (
	"bytes"
	"encoding/json"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/jsonrewrite"
)

// Encoder is a buffer with the JSON encoder that writes to it.
type Encoder struct {
	Buf  bytes.Buffer
	JSON *json.Encoder
}

var Encoders = sync.Pool{New: func() any {
	e := new(Encoder)
	e.JSON = json.NewEncoder(&e.Buf)
	e.JSON.SetEscapeHTML(false)
	return e
}}

// Encode is for bodies that are kept, such as an event's data.
func Encode(v any) json.RawMessage {
	e := Encoders.Get().(*Encoder)
	defer Encoders.Put(e)
	e.Buf.Reset()
	if err := e.JSON.Encode(v); err != nil {
		panic(err)
	}
	return bytes.TrimRight(bytes.Clone(e.Buf.Bytes()), "\n")
}

// Rewriter is what bodies go through on their way out; nil where nothing does.
func Rewriter(r *behavior.Set, compatible uint64) func([]byte) []byte {
	if !r.DropNulls && compatible == 0 {
		return nil
	}
	return func(body []byte) []byte {
		tree, err := jsonrewrite.Parse(body)
		if err != nil {
			panic(err) // only bodies of ours get here
		}
		if r.DropNulls {
			tree.DropNulls()
		}
		if compatible != 0 {
			jsonrewrite.NewMutator(compatible, body).Mutate(tree)
		}
		return tree.Encode(nil)
	}
}

// NullText makes an empty string null.
func NullText(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// Time writes a timestamp in UTC, ISO 8601.
func Time(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// NullTime makes the zero time null.
func NullTime(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	s := Time(t)
	return &s
}

// NullDay writes a date, and the zero time as null.
func NullDay(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	s := t.UTC().Format(time.DateOnly)
	return &s
}
