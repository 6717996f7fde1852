package transport

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/api/observe"
)

// maxErrorBody is how much of a failed answer an error keeps.
const maxErrorBody = 64 << 10

// explain turns what came back into the one error of this module. err is what
// kept a whole answer from coming, or why no token could be had.
func (x *exchange) explain(err error) *api.Error {
	e := api.Error{
		Operation:  x.call.Operation.Name,
		Method:     x.call.Operation.Method,
		Route:      x.call.Operation.Route,
		StatusCode: x.status,
		RequestID:  x.header.Get(requestIDHeader),
		Attempts:   x.attempts,
		Outcome:    x.outcome(err),
	}
	if asked, ok := parseRetryAfter(x.header); ok && x.status >= 300 {
		e.RetryAfter = asked
	}
	var throttled *throttledError
	if errors.As(err, &throttled) {
		e.RetryAfter = throttled.left
	}
	x.observed.failed(x.failure(err), e.Outcome)
	var body []byte
	var messages []string
	if x.body != nil && x.status != 0 {
		body = bytes.Clone(x.body.Bytes()[:min(x.body.Len(), maxErrorBody)])
		e.Code, messages = parseErrorBody(body)
	}
	cause := redact(err)
	if cause == nil && x.lacks != nil && x.status == http.StatusForbidden {
		cause = x.lacks // most likely
	}
	return api.NewError(e, cause, body, messages)
}

// undecodable reports an answer of success that could not be read. The write
// behind it has most likely happened.
func (x *exchange) undecodable(cause error) *api.Error {
	e := x.explain(nil)
	x.observed.failed(observe.FailureBadResponse, e.Outcome)
	return api.NewError(*e, cause, e.Body(), nil)
}

// oauthCodes are the error codes of RFC 6749, sections 4.1.2.1 and 5.2. Only
// they are told in an error's text: anything else could be anything.
var oauthCodes = []string{
	"access_denied", "invalid_client", "invalid_grant", "invalid_request", "invalid_scope", "server_error",
	"temporarily_unavailable", "unauthorized_client", "unsupported_grant_type", "unsupported_response_type",
}

// parseErrorBody reads every form of an error body that has been seen:
//
//	{"error": ["Last name can't be blank"]}
//	{"error": "The access token expired"}
//	{"status": 404, "error": "Not Found"}
//	{"error": "invalid_grant", "error_description": "…"}
//	{"errors": [{"code": "…", "message": "…"}]}
//	{"errors": ["…"]}, {"errors": {"email": ["…"]}}
//
// Anything else, such as the HTML of a proxy, yields no message.
func parseErrorBody(body []byte) (code string, messages []string) {
	var answer struct {
		Error       json.RawMessage `json:"error"`
		Description json.RawMessage `json:"error_description"`
		Message     json.RawMessage `json:"message"`
		Errors      json.RawMessage `json:"errors"`
	}
	if json.Unmarshal(body, &answer) != nil {
		return "", nil
	}
	var word string
	if json.Unmarshal(answer.Error, &word) == nil && slices.Contains(oauthCodes, word) {
		code = word
	} else {
		messages = appendMessages(messages, answer.Error, 0)
	}
	for _, raw := range []json.RawMessage{answer.Description, answer.Message, answer.Errors} {
		messages = appendMessages(messages, raw, 0)
	}
	return code, messages
}

// writtenByPlatform tells an answer of the platform, which writes JSON objects, from
// the page or the silence of a proxy in front of it.
func writtenByPlatform(body []byte) bool {
	var object map[string]json.RawMessage
	return json.Unmarshal(body, &object) == nil && object != nil
}

// maxMessageDepth keeps a hostile body from nesting without end.
const maxMessageDepth = 4

// appendMessages collects the texts of a value, however it is nested.
func appendMessages(messages []string, raw json.RawMessage, depth int) []string {
	var text string
	var list []json.RawMessage
	var object map[string]json.RawMessage
	switch {
	case len(raw) == 0 || depth > maxMessageDepth:
	case json.Unmarshal(raw, &text) == nil:
		if text != "" {
			messages = append(messages, text)
		}
	case json.Unmarshal(raw, &list) == nil:
		for _, item := range list {
			messages = appendMessages(messages, item, depth+1)
		}
	case json.Unmarshal(raw, &object) == nil:
		if message, ok := object["message"]; ok {
			return appendMessages(messages, message, depth+1)
		}
		for _, field := range slices.Sorted(maps.Keys(object)) {
			for _, message := range appendMessages(nil, object[field], depth+1) {
				messages = append(messages, field+" "+message)
			}
		}
	}
	return messages
}

// ended logs the attempt that just ended, and tells observers.
func (x *exchange) ended(ctx context.Context, err error) {
	x.log(ctx, err)
	x.observed.attemptEnd(x, err)
}

// log writes the attempt that just ended. It names the route template and the
// request id; addresses, queries, headers and bodies never get here.
func (x *exchange) log(ctx context.Context, err error) {
	logger := x.client.config.Logger
	if logger == nil || !logger.Enabled(ctx, slog.LevelDebug) {
		return
	}
	attrs := []slog.Attr{
		slog.String("operation", x.call.Operation.Name),
		slog.String("method", x.call.Operation.Method),
		slog.String("route", x.call.Operation.Route),
		slog.String("environment", x.client.config.Site.Environment.String()),
		slog.Int("attempt", x.attempts),
		slog.Duration("duration", time.Since(x.began)),
	}
	if x.status != 0 {
		attrs = append(attrs, slog.Int("status", x.status), slog.String("request_id", x.header.Get(requestIDHeader)))
	}
	if err != nil {
		attrs = append(attrs, slog.String("error", redact(err).Error()))
	}
	logger.LogAttrs(ctx, slog.LevelDebug, "dispensary request", attrs...)
}
