package transport

import (
	"context"
	"log/slog"
	"net/http"
	"time"
)

// startAttempt begins an attempt and returns the request to send.
func startAttempt(s *callState, request *http.Request) *http.Request {
	s.attempts++
	if s.attempts > 1 {
		s.attempt = &attemptContext{} // a transport may still use the previous one
		request = request.WithContext(s.attempt)
	}
	s.attempt.Context = s.observed.attemptStart(s.requestCtx, s.attempts, s.wait)
	s.wait = 0
	s.began = time.Now()
	if timeout := s.client.attemptTimeout; timeout > 0 {
		s.attempt.deadline = s.began.Add(timeout)
	}
	s.trace.reset()
	s.answer.reset()
	return request
}

// readAnswer reads the response to the attempt, once.
func readAnswer(s *callState, response *http.Response) error {
	if s.answer.tried {
		return s.answer.readErr
	}
	limit := int64(maxBody)
	if !s.call.Operation.NeedsToken() {
		limit = maxSmallBody
	}
	err := s.answer.read(response, limit)
	noteThrottle(s)
	return err
}

// endAttempt logs and reports the attempt that just ended. err is the reason if no complete
// response was received.
func endAttempt(ctx context.Context, s *callState, err error) {
	s.attempt.end()
	logAttempt(ctx, s, err)
	s.observed.attemptEnd(&s.answer, time.Since(s.began), err)
}

// logAttempt logs the attempt that just ended. The record contains the route template and the
// request id, and never a URL, a query, a header or a body.
func logAttempt(ctx context.Context, s *callState, err error) {
	logger := s.client.config.Logger
	if logger == nil || !logger.Enabled(ctx, slog.LevelDebug) {
		return
	}
	attrs := []slog.Attr{
		slog.String("operation", s.call.Operation.Name),
		slog.String("method", s.call.Operation.Method),
		slog.String("route", s.call.Operation.Route),
		slog.String("environment", s.client.config.Site.Environment.String()),
		slog.Int("attempt", s.attempts),
		slog.Duration("duration", time.Since(s.began)),
	}
	if s.answer.status != 0 {
		attrs = append(attrs, slog.Int("status", s.answer.status), slog.String("request_id", s.answer.requestID()))
	}
	if err != nil {
		attrs = append(attrs, slog.String("error", publicCause(err).Error()))
	}
	logger.LogAttrs(ctx, slog.LevelDebug, "dispensary request", attrs...)
}
