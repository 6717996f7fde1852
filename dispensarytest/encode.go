package dispensarytest

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// encoder is a buffer with the JSON encoder that writes to it.
type encoder struct {
	buf  bytes.Buffer
	json *json.Encoder
}

var encoders = sync.Pool{New: func() any {
	e := new(encoder)
	e.json = json.NewEncoder(&e.buf)
	e.json.SetEscapeHTML(false)
	return e
}}

// largestKept is the biggest buffer that goes back to the pool.
const largestKept = 1 << 18

var jsonType = []string{"application/json; charset=utf-8"}

// writeJSON writes an answer, wrapped under a key unless it is bare, and then
// rewritten where a reading or a mode asks for it.
func writeJSON(w http.ResponseWriter, status int, rep reply, key string, rewrite func([]byte) []byte) {
	e := encoders.Get().(*encoder)
	e.buf.Reset()
	if err := e.wrap(rep, key); err != nil {
		// Only a view with a type JSON does not know gets here.
		panic(err)
	}
	body := e.buf.Bytes()
	if rewrite != nil {
		body = rewrite(body)
	}
	header := w.Header()
	header["Content-Type"] = jsonType
	header["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that went away is no failure of ours
	if e.buf.Cap() <= largestKept {
		encoders.Put(e)
	}
}

func (e *encoder) wrap(rep reply, key string) error {
	if rep.bare || key == "" {
		return e.json.Encode(rep.value)
	}
	e.buf.WriteString(`{"`)
	e.buf.WriteString(key)
	e.buf.WriteString(`":`)
	if err := e.json.Encode(rep.value); err != nil {
		return err
	}
	if rep.meta != nil {
		e.buf.WriteString(`,"meta":`)
		if err := e.json.Encode(rep.meta); err != nil {
			return err
		}
	}
	e.buf.WriteByte('}')
	return nil
}

// encodeOne is for bodies that are kept, such as an event's data.
func encodeOne(v any) json.RawMessage {
	e := encoders.Get().(*encoder)
	defer encoders.Put(e)
	e.buf.Reset()
	if err := e.json.Encode(v); err != nil {
		panic(err)
	}
	return bytes.TrimRight(bytes.Clone(e.buf.Bytes()), "\n")
}

// orNull makes an empty string null.
func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// stamp writes a timestamp in UTC, ISO 8601.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// stampOrNull makes the zero time null.
func stampOrNull(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	s := stamp(t)
	return &s
}

// dayOrNull writes a date, and the zero time as null.
func dayOrNull(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	s := t.UTC().Format(time.DateOnly)
	return &s
}
