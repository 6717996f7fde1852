package transport

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/api/observe"
	"github.com/dispensary-go/dispensary/internal/apierror"
	"github.com/dispensary-go/dispensary/internal/apierror/detail"
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
	if err != nil || !s.answer.success() {
		return buildError(s, err)
	}
	return nil
}

// maxErrorBody is the part of a failed response that an error keeps, in bytes.
const maxErrorBody = 64 << 10

// buildError returns the error of a failed call. err is the reason for a missing or incomplete
// response, or for a missing token. It is nil if the response itself is the failure.
func buildError(s *callState, err error) *api.Error {
	op, a := s.call.Operation, &s.answer
	e := api.Error{
		Operation: op.Name, Method: op.Method, Route: op.Route,
		StatusCode: a.status, RequestID: a.requestID(), Attempts: s.attempts, Outcome: outcome(s, err),
	}
	if asked, ok := retryAfter(a.header); ok && a.status >= 300 {
		e.RetryAfter = asked
	}
	var throttled *throttledError
	if errors.As(err, &throttled) {
		e.RetryAfter = throttled.left
	}
	s.observed.recordFailure(classify(err, a), e.Outcome)
	e.Untrusted = a.status != 0 && !a.fromPlatform(op.Key)
	var body []byte
	var messages []detail.Message
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
	return apierror.New(e, cause, body, messages)
}

// undecodable returns the error of an undecodable success. The platform has most likely
// applied the write.
func undecodable(s *callState, cause error) *api.Error {
	e := buildError(s, nil)
	s.observed.recordFailure(observe.FailureBadResponse, e.Outcome)
	return apierror.New(*e, cause, e.Body(), nil)
}

// outcome returns the outcome of a failed call. A read that was sent has none, because it
// changes nothing. A write counts as rejected only if the platform provably reports it; see
// [answer.fromPlatform]. A server error is not a rejection: the platform may have applied a
// part, and a gateway does not know. A 303 refers to the result of a write that was applied. A
// gateway sends 408 if the platform is slow.
func outcome(s *callState, err error) api.Outcome {
	switch status := s.answer.status; {
	case status == 0 && unsent(err, &s.trace):
		return api.OutcomeNotSent
	case s.call.Operation.Read():
		return api.OutcomeNone
	case status == http.StatusSeeOther, status == http.StatusRequestTimeout:
		return api.OutcomeMaybeApplied
	case status >= 300 && status < 500 && s.answer.fromPlatform(""):
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
