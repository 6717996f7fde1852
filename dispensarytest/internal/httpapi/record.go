package httpapi

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"slices"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// entry is the journal's record of a request.
type entry struct {
	model.Request
	api     *API
	secret  bool // the bodies contain secrets
	written bool
}

// write writes the request to the journal, once.
func (e *entry) write(status int) {
	if e.written {
		return
	}
	e.written = true
	e.Status = cmp.Or(e.Status, status)
	e.RespondedAt = e.api.Clock.Now()
	e.api.Record(&e.Request)
}

// recordedResponse writes the request to the journal before the first byte of the response. So a
// client with a response finds its request there.
type recordedResponse struct {
	http.ResponseWriter
	entry *entry
}

// WriteHeader implements [http.ResponseWriter].
func (a *recordedResponse) WriteHeader(status int) {
	a.entry.write(status)
	a.ResponseWriter.WriteHeader(status)
}

// Unwrap implements the interface behind [http.ResponseController].
func (a *recordedResponse) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// largestBody is the maximum size of a body in the journal. It cuts off longer bodies.
const largestBody = 16 << 10

// keepRequestBody records the body of the request. The body can still be read.
func (e *entry) keepRequestBody(r *http.Request) {
	if !e.api.KeepBodies {
		return
	}
	body, _ := io.ReadAll(io.LimitReader(r.Body, MaxBody+1)) // reading the form repeats the error
	e.RequestBody = e.shown(body)
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(body), r.Body), r.Body}
}

// keepResponse returns a function that records the response body after rewrite.
func (e *entry) keepResponse(rewrite func([]byte) []byte) func([]byte) []byte {
	if !e.api.KeepBodies {
		return rewrite
	}
	return func(body []byte) []byte {
		if rewrite != nil {
			body = rewrite(body)
		}
		e.ResponseBody = e.shown(body)
		return body
	}
}

// shown returns the body for the journal. Bodies of the token endpoints contain secrets. If
// such a body is not JSON, they may be anywhere in it.
func (e *entry) shown(body []byte) []byte {
	if e.secret && len(body) > 0 {
		body = masked(body)
	}
	return slices.Clone(body[:min(len(body), largestBody)])
}

// secretMembers are the masked members of the token endpoints' bodies.
var secretMembers = []string{"access_token", "client_secret", "code", "refresh_token", "token"}

// masked returns a JSON document without its secrets.
func masked(body []byte) []byte {
	var document any
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	if decoder.Decode(&document) != nil {
		return []byte("not JSON, so not recorded: it may contain a token")
	}
	if text, isString := document.(string); isString && text != "" {
		document = "***"
	}
	mask(document)
	shown, _ := json.Marshal(document) // it was decoded from JSON
	return shown
}

func mask(document any) {
	switch value := document.(type) {
	case map[string]any:
		for name, member := range value {
			if slices.Contains(secretMembers, name) {
				value[name] = "***"
			} else {
				mask(member)
			}
		}
	case []any:
		for _, element := range value {
			mask(element)
		}
	}
}
