package httpapi

import (
	"net/http"
	"strconv"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/view"
)

// reply is a handler's answer.
type reply struct {
	status int // 0 is 200
	bare   bool
	value  any
	meta   *pageMeta
}

// ok answers with a value under the operation's key.
func ok(value any) reply { return reply{value: value} }

// created is ok with 201. API success codes are an assumption.
func created(value any) reply { return reply{status: http.StatusCreated, value: value} }

// bare answers with a value that is not wrapped.
func bare(value any) reply { return reply{bare: true, value: value} }

// writeJSON writes an answer, wrapped under a key unless it is bare, and then
// rewritten where a reading or a mode asks for it.
func writeJSON(w http.ResponseWriter, status int, rep reply, key string, rewrite func([]byte) []byte) {
	e := view.Encoders.Get().(*view.Encoder)
	e.Buf.Reset()
	if err := wrap(e, rep, key); err != nil {
		// Only a view with a type JSON does not know gets here.
		panic(err)
	}
	body := e.Buf.Bytes()
	if rewrite != nil {
		body = rewrite(body)
	}
	header := w.Header()
	header["Content-Type"] = jsonType
	header["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that went away is no failure of ours
	if e.Buf.Cap() <= largestKept {
		view.Encoders.Put(e)
	}
}

func wrap(e *view.Encoder, rep reply, key string) error {
	if rep.bare || key == "" {
		return e.JSON.Encode(rep.value)
	}
	e.Buf.WriteString(`{"`)
	e.Buf.WriteString(key)
	e.Buf.WriteString(`":`)
	if err := e.JSON.Encode(rep.value); err != nil {
		return err
	}
	if rep.meta != nil {
		e.Buf.WriteString(`,"meta":`)
		if err := e.JSON.Encode(rep.meta); err != nil {
			return err
		}
	}
	e.Buf.WriteByte('}')
	return nil
}

var jsonType = []string{"application/json; charset=utf-8"}

// largestKept is the biggest buffer that goes back to the pool.
const largestKept = 1 << 18

// WriteProblem answers with a problem before there is a call.
func WriteProblem(w http.ResponseWriter, status int, message string) {
	writeJSON(w, status, bare(problemOf(status, message).body(behavior.ShapeByStatus, status)), "", nil)
}
