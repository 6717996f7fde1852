package transport

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/jsondecode"
	"github.com/dispensary-go/dispensary/internal/operation"
)

// One sends a call and returns the object in the response.
func One[T any](ctx context.Context, c *Client, call Call) (*T, error) {
	s, err := c.send(ctx, call)
	if err != nil {
		return nil, err
	}
	defer s.release()
	return decodeOne[T](s)
}

// Do sends a call that returns no content. The response to a write must be a JSON object
// without an error.
func Do(ctx context.Context, c *Client, call Call) error {
	s, err := c.send(ctx, call)
	if err != nil {
		return err
	}
	defer s.release()
	return checkEmptySuccess(s)
}

// Pages returns the pages of a list one after the other, for calls that read a list
// internally. Unlike a list of [NewList], it supports [api.CaptureResponse].
func Pages[T any](ctx context.Context, c *Client, call Call) iter.Seq2[*api.Page[T], error] {
	return func(yield func(*api.Page[T], error) bool) {
		readPages(ctx, c, newListRun(newListCall(call), api.ListSettings{}), yield)
	}
}

// Raw sends a call to a path outside of the operation table and returns the unmodified body of
// the response. Its errors contain the route "(raw)", because the path comes from the caller
// and may contain anything.
func Raw(ctx context.Context, c *Client, method, path string, query url.Values, body any, options []api.RequestOption) ([]byte, error) {
	call, err := newRawCall(method, path, query, body, options)
	if err != nil {
		return nil, err
	}
	s, err := c.send(ctx, call)
	if err != nil {
		return nil, err
	}
	defer s.release()
	if err := checkSuccess(s); err != nil {
		return nil, err
	}
	return bytes.Clone(s.last.body.Bytes()), nil
}

// newRawCall returns the call of a path outside of the operation table.
func newRawCall(method, path string, query url.Values, body any, options []api.RequestOption) (Call, error) {
	op := operation.New(operation.Operation{Name: "raw", Method: method, Route: "(raw)", ScopeVaries: true})
	call := Call{Operation: op, Query: query, Body: body, Options: options, path: path}
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
	default:
		return call, call.invalid("Method", "must be GET, HEAD, POST, PUT, PATCH or DELETE")
	}
	plain, _, _ := rawPath(path)
	if !strings.HasPrefix(path, "/") || strings.ContainsAny(path, "?#") || hasDotSegment(plain) {
		return call, call.invalid("Path", "must start with a slash, stay below the base URL and contain no query")
	}
	return call, nil
}

func hasDotSegment(path string) bool {
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "." || segment == ".." {
			return true
		}
	}
	return false
}

// newPipeline composes the links of every call, outermost first. Each link calls the next one.
func newPipeline() step {
	return compose(
		buildErrors,     // turns every failure into an *api.Error
		prepareRequest,  // checks the arguments, fetches no token and sends no request
		captureResponse, // stores status and headers for api.CaptureResponse
		authorize,       // token and scopes; one retry with a fresh token after a 401
		sendWithRetries, // limit, send, read, log; retries as the policy allows
	)
}

var pipeline = newPipeline()

// link is one step of the pipeline. next contains the links after it.
type link func(ctx context.Context, s *callState, next step) error

func compose(links ...link) step {
	var next step
	for _, outer := range slices.Backward(links) {
		inner := next
		next = func(ctx context.Context, s *callState) error { return outer(ctx, s, inner) }
	}
	return next
}

// send sends a call through the pipeline. On success the state contains the whole response,
// and the caller decodes and releases it. On failure send has already released the state.
func (c *Client) send(ctx context.Context, call Call) (*callState, error) {
	ctx, s := newCallState(ctx, c, call)
	if err := pipeline(ctx, s); err != nil {
		s.release()
		return nil, err
	}
	return s, nil
}

// decodeOne returns the object in the response. If its type has an id, the object must have
// one, because an empty id would address other records in later calls.
func decodeOne[T any](s *callState) (*T, error) {
	if s.call.Operation.Key == "" {
		value := new(T)
		invalid, err := decode(s, value)
		if err != nil {
			return nil, err
		}
		s.reportInvalid(invalid)
		return value, nil
	}
	envelope := envelopeOf[T](s.call.Operation)
	wrapper := reflect.New(envelope.of)
	invalid, err := decode(s, wrapper.Interface())
	if err != nil {
		return nil, err
	}
	value := wrapper.Elem().Field(0).Interface().(*T)
	switch {
	case value == nil:
		return nil, undecodable(s, &decodeError{"has no " + s.call.Operation.Key})
	case envelope.id >= 0 && reflect.ValueOf(value).Elem().Field(envelope.id).Len() == 0:
		return nil, undecodable(s, &decodeError{s.call.Operation.Key + " has no id"})
	}
	if err := checkSuccess(s); err != nil {
		return nil, err
	}
	s.reportInvalid(invalid)
	return value, nil
}

// decodePage returns the items and the meta of the response.
func decodePage[T any](s *callState) (*api.Page[T], error) {
	if s.call.page != nil {
		s.setRawPage()
	}
	wrapper := reflect.New(envelopeOf[[]T](s.call.Operation).of)
	invalid, err := decode(s, wrapper.Interface())
	if err != nil {
		return nil, err
	}
	items := wrapper.Elem().Field(0).Interface().(*[]T)
	meta := wrapper.Elem().Field(1).Interface().(*api.Meta)
	switch {
	case items == nil && meta != nil && isEmptyList(*meta):
		items = new([]T) // the platform may write null or omit the key
	case items == nil:
		return nil, undecodable(s, &decodeError{"has no " + s.call.Operation.Key})
	case meta == nil:
		// Without meta the list would end early and lose the later pages.
		return nil, undecodable(s, &decodeError{"has no meta"})
	}
	for _, one := range invalid {
		if strings.HasPrefix(one.Field, "meta.") && one.Field != "meta.prev_page" { // no reader needs prev_page
			return nil, undecodable(s, &decodeError{"field " + one.Field + " does not fit"})
		}
	}
	s.reportInvalid(invalid)
	page := &api.Page[T]{Items: *items, Meta: *meta}
	if len(invalid) > 0 {
		page.Omitted = max(0, countElements(s)-len(page.Items))
	}
	return page, nil
}

// countElements returns the number of list elements in the response, including those that do
// not fit.
func countElements(s *callState) int {
	var members map[string]json.RawMessage
	var elements []json.RawMessage
	_ = json.Unmarshal(s.last.body.Bytes(), &members)
	_ = json.Unmarshal(members[s.call.Operation.Key], &elements)
	return len(elements)
}

// isEmptyList reports whether meta describes a list without records. The zero Meta does not.
func isEmptyList(meta api.Meta) bool {
	return meta.TotalCount == 0 && meta.NextPage == 0 && meta.TotalPages <= 1 && meta.CurrentPage > 0
}

// decode decodes the response into a value. It returns the fields that do not fit.
func decode(s *callState, into any) ([]jsondecode.Invalid, error) {
	invalid, err := jsondecode.Unmarshal(s.last.body.Bytes(), into)
	if err != nil {
		return nil, undecodable(s, &decodeError{describeDecode(err)})
	}
	return invalid, nil
}

// reportInvalid reports the fields that are zero because they could not be decoded.
func (s *callState) reportInvalid(invalid []jsondecode.Invalid) {
	for _, one := range invalid {
		s.observed.invalidField(one.Field, one.RecordID)
		if logger := s.client.config.Logger; logger != nil {
			logger.LogAttrs(s.request.Context(), slog.LevelWarn, "dispensary: cannot decode a field of a response",
				slog.String("operation", s.call.Operation.Name), slog.String("field", one.Field), slog.String("record_id", one.RecordID))
		}
	}
}

// envelopes contains the envelopes by response key and content.
var envelopes sync.Map

type envelopeKey struct {
	key     string
	list    bool
	content reflect.Type
}

// envelope is the type that a response decodes into.
type envelope struct {
	of reflect.Type
	id int // the index of the content's id field, or -1
}

// envelopeOf returns the type of an operation's response: a struct with the content under the
// response key and, for a list, the meta. The operation table contains the key, and decoding
// directly into the struct avoids a second parse.
func envelopeOf[T any](op *operation.Operation) *envelope {
	key := envelopeKey{op.Key, op.List, reflect.TypeFor[T]()}
	if known, ok := envelopes.Load(key); ok {
		return known.(*envelope)
	}
	fields := []reflect.StructField{{
		Name: "Content", Type: reflect.PointerTo(key.content), Tag: reflect.StructTag(`json:` + strconv.Quote(op.Key)),
	}}
	if op.List {
		fields = append(fields, reflect.StructField{
			Name: "Meta", Type: reflect.TypeFor[*api.Meta](), Tag: `json:"meta"`,
		})
	}
	made, _ := envelopes.LoadOrStore(key, &envelope{of: reflect.StructOf(fields), id: idField(key.content)})
	return made.(*envelope)
}

// idField returns the index of a struct's id field, or -1.
func idField(t reflect.Type) int {
	if t.Kind() == reflect.Struct {
		for i := range t.NumField() {
			if field := t.Field(i); field.Tag.Get("json") == "id" && field.Type.Kind() == reflect.String {
				return i
			}
		}
	}
	return -1
}

// decodeError describes a decoding failure without values of the response.
type decodeError struct{ text string }

func (e *decodeError) Error() string        { return "undecodable response: " + e.text }
func (e *decodeError) Is(target error) bool { return target == api.ErrBadResponse }

// describeDecode returns the position of a decoding error. The original text may quote the
// response.
func describeDecode(err error) string {
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Sprintf("malformed JSON at byte %d", syntax.Offset)
	}
	return "is not a JSON object"
}

// checkSuccess returns an error if a write succeeded but the response does not prove that the
// platform wrote it.
func checkSuccess(s *callState) error {
	if op := s.call.Operation; op.Read() || s.last.fromPlatform(op.Key) {
		return nil
	}
	return undecodable(s, &decodeError{"no JSON object with an X-Request-Id"})
}

// checkEmptySuccess is checkSuccess for a write whose response must be an empty JSON object,
// as the API states for a revocation. A member named error contradicts the status.
func checkEmptySuccess(s *callState) error {
	if err := checkSuccess(s); err != nil || s.call.Operation.Read() {
		return err
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(s.last.body.Bytes(), &object) != nil || object == nil {
		return undecodable(s, &decodeError{"is not a JSON object"})
	}
	for _, name := range []string{"error", "errors"} {
		if _, failed := object[name]; failed {
			return undecodable(s, &decodeError{"reports an error"})
		}
	}
	return nil
}
