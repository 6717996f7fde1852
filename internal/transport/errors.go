package transport

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/api/observe"
	"github.com/dispensary-go/dispensary/internal/apikit"
	"github.com/dispensary-go/dispensary/internal/apikit/hidden"
)

// buildErrors is the link that turns every failure into an *api.Error. The only exception is
// an *api.ArgumentError for invalid arguments, which stays unchanged.
func buildErrors(ctx context.Context, s *callState, next step) error {
	err := next(ctx, s)
	switch err.(type) { // not errors.As: the error of a token source may wrap one
	case *api.ArgumentError, api.ArgumentErrors:
		s.observed.recordFailure(observe.FailureArgument, api.OutcomeNotSent)
		return err
	}
	if err != nil || !s.last.success() {
		return buildError(s, err)
	}
	return nil
}

// maxErrorBody is the part of a failed response that an error keeps, in bytes.
const maxErrorBody = 64 << 10

// buildError returns the error of a failed call. err is the reason for a missing or incomplete
// response, or for a missing token. It is nil if the response itself is the failure.
func buildError(s *callState, err error) *api.Error {
	op, a := s.call.Operation, &s.last
	e := api.Error{
		Operation: op.Name, Method: op.Method, Route: op.Route,
		StatusCode: a.status, RequestID: a.requestID(), Attempts: s.attempts, Outcome: outcome(s, err),
	}
	if asked, ok := retryAfter(a.header); ok && a.status >= 300 {
		e.RetryAfter = asked
	}
	if throttled, ok := errors.AsType[*throttledError](err); ok {
		e.RetryAfter = throttled.left
	}
	s.observed.recordFailure(classify(err, a), e.Outcome)
	e.Untrusted = a.status != 0 && !a.fromPlatform(op.Key)
	var body []byte
	var messages []hidden.Message
	if a.body != nil && a.status != 0 {
		body = bytes.Clone(a.body.Bytes()[:min(a.body.Len(), maxErrorBody)])
		e.Code, messages = parseErrorBody(body, s.fieldsOfRequest())
	}
	if e.Untrusted {
		e.Code = ""
	}
	cause := publicCause(err)
	if cause == nil && s.missingScope != nil && a.status == http.StatusForbidden && !e.Untrusted {
		cause = s.missingScope // the most likely cause
	}
	return apikit.NewError(e, cause, body, messages)
}

// undecodable returns the error of an undecodable success. The platform has most likely
// applied the write.
func undecodable(s *callState, cause error) *api.Error {
	e := buildError(s, nil)
	s.observed.recordFailure(observe.FailureBadResponse, e.Outcome)
	return apikit.NewError(*e, cause, e.Body(), nil)
}

// outcome returns the outcome of a failed call. A read that was sent has none, because it
// changes nothing. A write counts as rejected only if the platform provably reports it; see
// [lastResponse.fromPlatform]. A server error is not a rejection: the platform may have applied a
// part, and a gateway does not know. A 303 refers to the result of a write that was applied. A
// gateway sends 408 if the platform is slow.
func outcome(s *callState, err error) api.Outcome {
	switch status := s.last.status; {
	case status == 0 && unsent(err, &s.trace):
		return api.OutcomeNotSent
	case s.call.Operation.Read():
		return api.OutcomeNone
	case status == http.StatusSeeOther, status == http.StatusRequestTimeout:
		return api.OutcomeMaybeApplied
	case status >= 300 && status < 500 && s.last.fromPlatform(""):
		return api.OutcomeNotApplied
	}
	return api.OutcomeMaybeApplied
}

// fieldsOfRequest returns the fields of a call: all fields of the types of its body and query,
// and all sent fields. For a raw call, only the sent fields are known.
func (s *callState) fieldsOfRequest() requestFields {
	names := typeFields(nil, "", reflect.TypeOf(s.call.Body), 0)
	var sent any
	if json.Unmarshal(s.built.body, &sent) == nil {
		names = valueFields(names, "", sent)
	}
	if query := reflect.TypeOf(s.call.Query); query != nil && query.Kind() == reflect.Struct {
		for _, field := range reflect.VisibleFields(query) {
			if name, _, _ := strings.Cut(field.Tag.Get("url"), ","); name != "" && name != "-" {
				names = append(names, name)
			}
		}
	}
	if s.request != nil {
		for name := range s.request.URL.Query() {
			names = append(names, strings.TrimSuffix(name, "[]"))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// oauthCodes are the error codes of RFC 6749, sections 4.1.2.1 and 5.2. Only these codes
// appear in the text of an error, because any other text may contain anything.
var oauthCodes = []string{
	"access_denied", "invalid_client", "invalid_grant", "invalid_request", "invalid_scope", "server_error",
	"temporarily_unavailable", "unauthorized_client", "unsupported_grant_type", "unsupported_response_type",
}

// parseErrorBody reads all known forms of an error body:
//
//	{"error": ["Last name can't be blank"]}
//	{"error": "The access token expired"}
//	{"status": 404, "error": "Not Found"}
//	{"error": "invalid_grant", "error_description": "…"}
//	{"errors": [{"code": "…", "message": "…"}]}
//	{"errors": [{"field": "email", "message": "…"}]}
//	{"errors": [{"title": "…", "detail": "…", "source": {"pointer": "/data/attributes/email"}}]}
//	{"errors": ["…"]}, {"errors": {"email": ["…"]}}
//
// It returns no message for any other body, such as the HTML of a proxy. The field of a
// message is the request field named by its key, by the member beside it, or by the beginning
// of its text. It returns each message once, because a body may repeat it in another form.
func parseErrorBody(body []byte, fields requestFields) (code string, messages []hidden.Message) {
	var response struct {
		Error       json.RawMessage `json:"error"`
		Description json.RawMessage `json:"error_description"`
		Message     json.RawMessage `json:"message"`
		Errors      json.RawMessage `json:"errors"`
	}
	if json.Unmarshal(body, &response) != nil {
		return "", nil
	}
	r := messageReader{fields: fields}
	var word string
	if json.Unmarshal(response.Error, &word) == nil && slices.Contains(oauthCodes, word) {
		code = word
	} else {
		r.read("", response.Error, 0)
	}
	for _, raw := range []json.RawMessage{response.Description, response.Message, response.Errors} {
		r.read("", raw, 0)
	}
	return code, distinct(r.messages)
}

// distinct returns the messages without repetitions, ignoring case.
func distinct(messages []hidden.Message) []hidden.Message {
	known := map[hidden.Message]bool{}
	return slices.DeleteFunc(messages, func(m hidden.Message) bool {
		m.Text = strings.ToLower(m.Text)
		repeated := known[m]
		known[m] = true
		return repeated
	})
}

// maxMessageDepth limits the nesting of a hostile body.
const maxMessageDepth = 4

// messageReader collects the texts of an error body at any nesting.
type messageReader struct {
	fields   requestFields
	messages []hidden.Message
}

// read collects the texts of a value. path is the position of the value in the body, with the
// names of the body. It is empty at the top.
func (r *messageReader) read(path string, raw json.RawMessage, depth int) {
	var text string
	var list []json.RawMessage
	var object map[string]json.RawMessage
	switch {
	case len(raw) == 0 || depth > maxMessageDepth:
	case json.Unmarshal(raw, &text) == nil:
		r.add(path, text)
	case json.Unmarshal(raw, &list) == nil:
		for i, item := range list {
			r.read(itemPath(path, i, item), item, depth+1)
		}
	case json.Unmarshal(raw, &object) == nil:
		if message := r.messageOf(object); message != nil {
			r.read(r.fieldPath(path, object, textOf(message)), message, depth+1)
			return
		}
		for _, key := range slices.Sorted(maps.Keys(object)) {
			r.read(strings.TrimPrefix(path+"."+key, "."), object[key], depth+1)
		}
	}
}

// messageOf returns the member with the text of an object that describes one error, or nil. A
// field of the request with such a name is a key like any other.
func (r *messageReader) messageOf(object map[string]json.RawMessage) json.RawMessage {
	if message, ok := object["message"]; ok {
		return message
	}
	for _, name := range []string{"msg", "detail", "title"} {
		if textOf(object[name]) != "" && r.fields.named(name) == "" {
			return object[name]
		}
	}
	return nil
}

// fieldPath returns the path of the field named by an object with a message. It returns path
// if the object names no field of the request, or the unknown name if the text needs one.
func (r *messageReader) fieldPath(path string, object map[string]json.RawMessage, text string) string {
	list := path
	if strings.HasSuffix(path, "]") {
		list = path[:strings.LastIndexByte(path, '[')]
	}
	name := nameBeside(object)
	for _, full := range []string{path + "." + name, list + "." + name, name, path, list} {
		if full = strings.Trim(full, "."); r.fields.named(full) != "" {
			return full
		}
	}
	if path == "" && continues(text) {
		return name
	}
	return path
}

// nameBeside returns the name of the field in an object with a message, or "".
func nameBeside(object map[string]json.RawMessage) string {
	var source struct{ Pointer, Parameter json.RawMessage }
	_ = json.Unmarshal(object["source"], &source)
	pointer := strings.TrimPrefix(textOf(source.Pointer), "/data")
	pointer = strings.TrimPrefix(strings.TrimPrefix(pointer, "/attributes"), "/relationships")
	name := cmp.Or(textOf(object["field"]), textOf(object["attribute"]), textOf(object["param"]), pointer, textOf(source.Parameter))
	return strings.Trim(strings.ReplaceAll(name, "/", "."), ".")
}

// continues reports whether a text continues a sentence that begins with the name of a field.
func continues(text string) bool {
	first, _ := utf8.DecodeRuneInString(text)
	return unicode.IsLower(first)
}

// textOf returns the content of a JSON string, or "".
func textOf(raw json.RawMessage) (text string) {
	_ = json.Unmarshal(raw, &text)
	return text
}

// itemPath returns the path of a list item. A text applies to the whole list, and a list at
// the top contains messages.
func itemPath(path string, i int, item json.RawMessage) string {
	if path == "" || len(item) == 0 || item[0] != '{' {
		return path
	}
	return path + "[" + strconv.Itoa(i) + "]"
}

func (r *messageReader) add(path, text string) {
	switch field := r.fields.named(path); {
	case text == "":
	case path == "", path == "base": // the name of Rails for the whole record
		r.messages = append(r.messages, r.fields.place(text)...)
	case field == "":
		r.messages = append(r.messages, hidden.Message{Text: path + " " + text})
	default:
		if continues(text) {
			text = hidden.Label(field) + " " + text
		}
		r.messages = append(r.messages, hidden.Message{Field: field, Text: text})
	}
}
