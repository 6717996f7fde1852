package httpapi

import (
	"net/http"
	"slices"
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
	body := []byte(view.Encode(rep.value))
	if !rep.bare && key != "" {
		body = slices.Concat([]byte(`{"`+key+`":`), body)
		if rep.meta != nil {
			body = append(append(body, `,"meta":`...), view.Encode(rep.meta)...)
		}
		body = append(body, '}')
	}
	if rewrite != nil {
		body = rewrite(body)
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that went away is no failure of ours
}

// WriteProblem answers with a problem before there is a call.
func WriteProblem(w http.ResponseWriter, status int, message string) {
	writeJSON(w, status, bare(problemOf(status, message).body(behavior.ShapeByStatus, status)), "", nil)
}
