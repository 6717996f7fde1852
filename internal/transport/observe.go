package transport

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/api/observe"
)

// observation tells the observers of a client how one call goes. All its methods
// do nothing on nil, so that a call that nobody observes pays nothing.
type observation struct {
	observers []observe.Observer
	call      observe.Call
	began     time.Time

	ctx         context.Context // of the call
	requestCtx  context.Context // what the contexts of attempts are made from
	attempt     observe.Attempt // the last one
	attemptCtx  context.Context // of the last attempt
	last        observe.AttemptResult
	limiterWait time.Duration // before the next attempt

	failure observe.Failure
	outcome api.Outcome
}

// observe starts the observation of a call, and returns its context.
func (x *exchange) observe(ctx context.Context) context.Context {
	config := &x.client.config
	if len(config.Observers) == 0 {
		return ctx
	}
	op := x.call.Operation
	o := &observation{
		observers: config.Observers,
		call:      observe.Call{Operation: op.Name, Method: op.Method, Route: op.Route, Environment: config.Site.Environment, Host: x.client.base.Host},
		began:     time.Now(),
	}
	for _, observer := range o.observers {
		if observer.CallStart != nil {
			ctx = either(observer.CallStart(ctx, o.call), ctx)
		}
	}
	x.observed, o.ctx = o, ctx
	return ctx
}

// either returns the context that an observer returned, if it did.
func either(made, given context.Context) context.Context {
	if made == nil {
		return given
	}
	return made
}

// limited notes a wait for the limiter that began at start.
func (o *observation) limited(start time.Time) {
	if o != nil {
		o.limiterWait = time.Since(start)
	}
}

// attemptStart tells of an attempt, and puts its context on the request.
func (o *observation) attemptStart(x *exchange) {
	if o == nil {
		return
	}
	if o.requestCtx == nil {
		o.requestCtx = x.request.Context()
	}
	o.attempt = observe.Attempt{
		Call: o.call, Number: x.attempts, Retry: o.retryReason(), BackOff: x.wait, LimiterWait: o.limiterWait,
	}
	o.attemptCtx, o.limiterWait = o.requestCtx, 0
	for _, observer := range o.observers {
		if observer.AttemptStart != nil {
			o.attemptCtx = either(observer.AttemptStart(o.attemptCtx, o.attempt), o.attemptCtx)
		}
	}
	x.request.Request = x.request.Request.WithContext(o.attemptCtx)
}

// retryReason says what the attempt before came to.
func (o *observation) retryReason() observe.RetryReason {
	switch {
	case o.last.Number == 0:
		return ""
	case o.last.Failure != observe.FailureStatus:
		return observe.RetryNetwork
	case o.last.StatusCode == http.StatusUnauthorized:
		return observe.RetryUnauthorized
	case o.last.StatusCode == http.StatusTooManyRequests:
		return observe.RetryRateLimited
	}
	return observe.RetryServer
}

// attemptEnd tells how the attempt ended; err is why no whole answer came.
func (o *observation) attemptEnd(x *exchange, err error) {
	if o == nil {
		return
	}
	o.last = observe.AttemptResult{
		Attempt: o.attempt, StatusCode: x.status, RequestID: x.header.Get(requestIDHeader),
		Duration: time.Since(x.began), Failure: x.failure(err),
	}
	for i := len(o.observers) - 1; i >= 0; i-- {
		if tell := o.observers[i].AttemptEnd; tell != nil {
			tell(o.attemptCtx, o.last)
		}
	}
}

// failed notes why the call failed, and what became of it.
func (o *observation) failed(why observe.Failure, outcome api.Outcome) {
	if o != nil {
		o.failure, o.outcome = why, outcome
	}
}

// callEnd tells how the call ended.
func (o *observation) callEnd(x *exchange) {
	if o == nil {
		return
	}
	result := observe.CallResult{
		Call: o.call, Attempts: x.attempts, StatusCode: x.status, RequestID: x.header.Get(requestIDHeader),
		Duration: time.Since(o.began), Failure: o.failure, Outcome: o.outcome,
	}
	for i := len(o.observers) - 1; i >= 0; i-- {
		if tell := o.observers[i].CallEnd; tell != nil {
			tell(o.ctx, result)
		}
	}
}

// failure says in a word what is wrong with the last answer, or why none came.
func (x *exchange) failure(err error) observe.Failure {
	var own *ownError
	var scope *api.ScopeError
	switch {
	case errors.As(err, &own) && own.limiter && !isDone(err):
		return observe.FailureLimiter
	case errors.As(err, &own) && !isDone(err):
		switch {
		case errors.Is(err, api.ErrReauthorize):
			return observe.FailureReauthorize
		case errors.As(err, &scope):
			return observe.FailureScope
		}
		return observe.FailureNoAccessToken
	case err != nil:
		return failureOf(err)
	case x.status < 200 || x.status > 299:
		return observe.FailureStatus
	}
	return ""
}

// isDone is true of the errors of a context.
func isDone(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
