package dispensaryotel

import (
	"context"
	"strconv"

	"go.opentelemetry.io/otel/trace"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/api/observe"
	"github.com/dispensary-go/dispensary/dispensaryotel/internal/signal"
	"github.com/dispensary-go/dispensary/oauth/tokens"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// Calls returns the observer of API calls and token requests, for [dispensary.WithObserver]
// and oauth.Config.Observers.
//
// A call is a span with the operation's ID as its name. Each attempt is a span of kind client
// below it, such as "GET /clinic/patients/{id}". Spans of work that the call waits for, such
// as a token refresh, are also below the call.
func (t *Telemetry) Calls() observe.Observer {
	return observe.Observer{
		CallStart: t.callStart, AttemptStart: t.attemptStart, AttemptEnd: t.attemptEnd, CallEnd: t.callEnd, InvalidField: t.invalidField,
	}
}

func (t *Telemetry) callStart(ctx context.Context, c observe.Call) context.Context {
	ctx, _ = t.begin(ctx, ofCall, c.Operation, trace.SpanKindInternal, trace.SpanContext{}, operation(c.Environment, c.Operation)...)
	return ctx
}

func (t *Telemetry) callEnd(ctx context.Context, r observe.CallResult) {
	span := t.begunIn(ctx, ofCall)
	defer span.End()
	why := failure(r.Failure, r.StatusCode)
	if span.Recording() {
		span.Set(signal.Attempts.Of(r.Attempts))
		if r.Outcome != "" {
			span.Set(signal.Outcome.Of(string(r.Outcome)))
		}
		responded(span, r.StatusCode, r.RequestID, why)
	}
	t.callDuration.Record(ctx, r.Duration, append(operation(r.Environment, r.Operation), response(r.StatusCode, why)...)...)
}

// invalidField counts the field. The field's path and the record's ID are not attributes.
func (t *Telemetry) invalidField(ctx context.Context, f observe.InvalidField) {
	t.invalidFields.Count(ctx, operation(f.Environment, f.Operation)...)
}

func (t *Telemetry) attemptStart(ctx context.Context, a observe.Attempt) context.Context {
	if a.Retry != "" {
		t.retries.Count(ctx, append(operation(a.Environment, a.Operation), signal.RetryReason.Of(string(a.Retry)))...)
	}
	if a.LimiterWait > 0 {
		t.limiterWait.Record(ctx, a.LimiterWait, operation(a.Environment, a.Operation)...)
	}
	ctx, span := t.begin(ctx, ofAttempt, a.Method+" "+a.Route, trace.SpanKindClient, trace.SpanContext{}, append(request(a.Call), signal.Operation.Of(a.Operation))...)
	if span.Recording() {
		if a.Number > 1 {
			span.Set(signal.Resend.Of(a.Number-1), signal.RetryReason.Of(string(a.Retry)), signal.BackOff.Of(a.BackOff))
		}
		if a.LimiterWait > 0 {
			span.Set(signal.LimiterWait.Of(a.LimiterWait))
		}
	}
	return ctx
}

func (t *Telemetry) attemptEnd(ctx context.Context, r observe.AttemptResult) {
	span := t.begunIn(ctx, ofAttempt)
	defer span.End()
	why := failure(r.Failure, r.StatusCode)
	if span.Recording() {
		responded(span, r.StatusCode, r.RequestID, why)
	}
	t.requestDuration.Record(ctx, r.Duration, append(request(r.Call), response(r.StatusCode, why)...)...)
}

// responded records the response, if there was one, and the failure on a span.
func responded(span signal.Span, status int, requestID, why string) {
	if status != 0 {
		span.Set(signal.Status.Of(status))
	}
	if requestID != "" {
		span.Set(signal.RequestID.Of(requestID))
	}
	if why != "" {
		span.Fail(why)
	}
}

// failure returns the error type of a failure. The conventions require the status if it is the
// cause.
func failure(f observe.Failure, status int) string {
	if f == observe.FailureStatus {
		return strconv.Itoa(status)
	}
	return string(f)
}

// Tokens returns the observer of stored tokens, for [tokens.Config].Observers.
//
// A refresh is a span "oauth.refresh" below the call that needed it. It contains the calls of
// the token endpoint. Events of users and of the application are counted, see
// [tokens.Observer]. No signal identifies the user.
func (t *Telemetry) Tokens() tokens.Observer {
	return tokens.Observer{
		RefreshStart: t.refreshStart, RefreshEnd: t.refreshEnd,
		Connected: func(ctx context.Context, e tokens.Authorization) {
			t.countTokenEvent(ctx, e.Key.Environment, "connected")
		},
		Disconnected: func(ctx context.Context, key tokenstore.Key) {
			t.countTokenEvent(ctx, key.Environment, "disconnected")
		},
		MustReauthorize: func(ctx context.Context, e *tokens.ReauthorizeError) {
			t.countTokenEvent(ctx, e.Key.Environment, "must_reauthorize", signal.ReauthorizeReason.Of(string(e.Reason)))
		},
		Restored: func(ctx context.Context, key tokenstore.Key) { t.countTokenEvent(ctx, key.Environment, "restored") },
		CommitDelayed: func(ctx context.Context, e tokens.CommitDelayed) {
			t.countTokenEvent(ctx, e.Key.Environment, "commit_delayed")
		},
		MassRejection: func(ctx context.Context, e tokens.MassRejection) {
			t.countTokenEvent(ctx, e.Environment, "mass_rejection")
		},
		ConfigErrorDetected: func(ctx context.Context, e tokens.ConfigErrorDetected) {
			t.countTokenEvent(ctx, e.Err.Environment, "config_error_detected")
		},
	}
}

func (t *Telemetry) countTokenEvent(ctx context.Context, of api.Environment, name string, more ...signal.Attribute) {
	t.tokenEvents.Count(ctx, append(append(environment(of), signal.TokenEvent.Of(name)), more...)...)
}

func (t *Telemetry) refreshStart(ctx context.Context, r tokens.Refresh) context.Context {
	attributes := append(environment(r.Key.Environment), signal.Background.Of(r.Background))
	ctx, _ = t.begin(ctx, ofRefresh, "oauth.refresh", trace.SpanKindInternal, trace.SpanContext{}, attributes...)
	return ctx
}

func (t *Telemetry) refreshEnd(ctx context.Context, r tokens.Refresh) {
	span := t.begunIn(ctx, ofRefresh)
	defer span.End()
	outcome := string(r.Outcome)
	attributes := append(environment(r.Key.Environment), signal.Background.Of(r.Background), signal.RefreshOutcome.Of(outcome))
	span.Set(signal.RefreshOutcome.Of(outcome))
	if r.Outcome != tokens.OutcomeRefreshed && r.Outcome != tokens.OutcomeFound {
		span.Fail(outcome)
		attributes = append(attributes, signal.Error.Of(outcome))
	}
	t.refreshDuration.Record(ctx, r.Duration, attributes...)
}
