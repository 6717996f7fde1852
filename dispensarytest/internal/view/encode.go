package view

import (
	"bytes"
	"encoding/json"
	"sync"
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
