package transport

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/api/observe"
)

// observation reports the progress of one call to the observers of a client. Its methods do
// nothing on nil, so a call without observers has no extra cost.
type observation struct {
	observers []observe.Observer
	call      observe.Call
	began     time.Time

	ctx         context.Context // of the call
	attempt     observe.Attempt // the last one
	attemptCtx  context.Context // of the last attempt
	last        observe.AttemptResult
	limiterWait time.Duration // before the next attempt

	failure observe.Failure
	outcome api.Outcome
}

// observeCall starts the observation of a call and returns its context.
func observeCall(ctx context.Context, observers []observe.Observer, call observe.Call) (context.Context, *observation) {
	o := &observation{observers: observers, call: call, began: time.Now()}
	for _, observer := range o.observers {
		if observer.CallStart != nil {
			ctx = either(observer.CallStart(ctx, o.call), ctx)
		}
	}
	o.ctx = ctx
	return ctx, o
}

// either returns the context of an observer, or given if the observer returned nil.
func either(made, given context.Context) context.Context {
	if made == nil {
		return given
	}
	return made
}

// limited records a wait for the limiter that began at start.
func (o *observation) limited(start time.Time) {
	if o != nil {
		o.limiterWait = time.Since(start)
	}
}

// attemptStart reports an attempt and returns its context, derived from ctx.
func (o *observation) attemptStart(ctx context.Context, number int, wait time.Duration) context.Context {
	if o == nil {
		return ctx
	}
	o.attempt = observe.Attempt{
		Call: o.call, Number: number, Retry: o.retryReason(), BackOff: wait, LimiterWait: o.limiterWait,
	}
	o.attemptCtx, o.limiterWait = ctx, 0
	for _, observer := range o.observers {
		if observer.AttemptStart != nil {
			o.attemptCtx = either(observer.AttemptStart(o.attemptCtx, o.attempt), o.attemptCtx)
		}
	}
	return o.attemptCtx
}

// retryReason returns the reason for the retry: the result of the previous attempt.
func (o *observation) retryReason() observe.RetryReason {
	switch {
	case o.last.Number == 0:
		return ""
	case o.last.Failure != observe.FailureStatus:
		return observe.RetryReasonNetwork
	case o.last.StatusCode == http.StatusUnauthorized:
		return observe.RetryReasonUnauthorized
	case o.last.StatusCode == http.StatusTooManyRequests:
		return observe.RetryReasonRateLimited
	}
	return observe.RetryReasonServer
}

// attemptEnd reports the result of the attempt and its duration d. err is the reason if no
// complete response was received.
func (o *observation) attemptEnd(a *lastResponse, d time.Duration, err error) {
	if o == nil {
		return
	}
	o.last = observe.AttemptResult{
		Attempt: o.attempt, StatusCode: a.status, RequestID: a.requestID(), Duration: d, Failure: classify(err, a),
	}
	for _, observer := range slices.Backward(o.observers) {
		if observer.AttemptEnd != nil {
			observer.AttemptEnd(o.attemptCtx, o.last)
		}
	}
}

// invalidField reports a field of the response that could not be decoded.
func (o *observation) invalidField(field, recordID string) {
	if o == nil {
		return
	}
	for _, observer := range o.observers {
		if observer.InvalidField != nil {
			observer.InvalidField(o.ctx, observe.InvalidField{Call: o.call, Field: field, RecordID: recordID})
		}
	}
}

// recordFailure stores the failure and the outcome of the call for callEnd.
func (o *observation) recordFailure(why observe.Failure, outcome api.Outcome) {
	if o != nil {
		o.failure, o.outcome = why, outcome
	}
}

// callEnd reports the result of the call.
func (o *observation) callEnd(a *lastResponse, attempts int) {
	if o == nil {
		return
	}
	result := observe.CallResult{
		Call: o.call, Attempts: attempts, StatusCode: a.status, RequestID: a.requestID(),
		Duration: time.Since(o.began), Failure: o.failure, Outcome: o.outcome,
	}
	for _, observer := range slices.Backward(o.observers) {
		if observer.CallEnd != nil {
			observer.CallEnd(o.ctx, result)
		}
	}
}
