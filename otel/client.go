package dispensaryotel

import (
	"context"
	"strconv"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api/observe"
	"github.com/dispensary-go/dispensary/otel/internal/signal"
)

// Client returns the option that observes a client's calls. Options of other
// observers may be given too.
//
// A call is a span with the operation's id as its name, and each attempt a span
// of kind client below it, "GET /clinic/patients/{id}". The spans of whatever the
// call waits for, such as a token's refresh, are below the call too.
func (t *Telemetry) Client() dispensary.Option { return dispensary.WithObserver(t.calls()) }

func (t *Telemetry) calls() observe.Observer {
	return observe.Observer{
		CallStart: t.callStart, AttemptStart: t.attemptStart, AttemptEnd: t.attemptEnd, CallEnd: t.callEnd, InvalidField: t.invalidField,
	}
}

func (t *Telemetry) callStart(ctx context.Context, c observe.Call) context.Context {
	ctx, span := t.tracer.Start(ctx, t.callShapes.Get(c, newCallShapes).call)
	return t.begun(ctx, ofCall, span)
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
		answered(span, r.StatusCode, r.RequestID, why)
	}
	if t.callDuration.Enabled(ctx) {
		t.callDuration.Record(ctx, r.Duration, t.callSeries.Get(answerKey{r.Call, r.StatusCode, why}, newCallSeries).call)
	}
}

// invalidField counts the field. Its path and the record's id are no attributes.
func (t *Telemetry) invalidField(ctx context.Context, f observe.InvalidField) {
	if t.invalidFields.Enabled(ctx) {
		t.invalidFields.Count(ctx, t.waitSeries.Get(waitKey{f.Operation, f.Environment, ""}, newWaitSeries))
	}
}

func (t *Telemetry) attemptStart(ctx context.Context, a observe.Attempt) context.Context {
	if a.Retry != "" && t.retries.Enabled(ctx) {
		t.retries.Count(ctx, t.waitSeries.Get(waitKey{a.Operation, a.Environment, a.Retry}, newWaitSeries))
	}
	if a.LimiterWait > 0 && t.limiterWait.Enabled(ctx) {
		t.limiterWait.Record(ctx, a.LimiterWait, t.waitSeries.Get(waitKey{a.Operation, a.Environment, ""}, newWaitSeries))
	}
	ctx, span := t.tracer.Start(ctx, t.callShapes.Get(a.Call, newCallShapes).attempt)
	if span.Recording() {
		if a.Number > 1 {
			span.Set(signal.Resend.Of(a.Number-1), signal.RetryReason.Of(string(a.Retry)), signal.BackOff.Of(a.BackOff))
		}
		if a.LimiterWait > 0 {
			span.Set(signal.LimiterWait.Of(a.LimiterWait))
		}
	}
	return t.begun(ctx, ofAttempt, span)
}

func (t *Telemetry) attemptEnd(ctx context.Context, r observe.AttemptResult) {
	span := t.begunIn(ctx, ofAttempt)
	defer span.End()
	why := failure(r.Failure, r.StatusCode)
	if span.Recording() {
		answered(span, r.StatusCode, r.RequestID, why)
	}
	if t.requestDuration.Enabled(ctx) {
		t.requestDuration.Record(ctx, r.Duration, t.callSeries.Get(answerKey{r.Call, r.StatusCode, why}, newCallSeries).attempt)
	}
}

// answered puts the answer on a span, if one came, and what is wrong with it.
func answered(span signal.Span, status int, requestID, why string) {
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

// failure returns the error type of a failure: the status where that says it, as
// the conventions want it.
func failure(f observe.Failure, status int) string {
	if f == observe.FailureStatus {
		return strconv.Itoa(status)
	}
	return string(f)
}
