package dispensaryotel

import (
	"context"
	"slices"

	"go.opentelemetry.io/otel/trace"

	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/otel/internal/signal"
)

// OAuth returns c with observation added; observers that c has are told first.
//
// A refresh is a span "oauth.refresh", below the call that needed it, with the
// calls of the token endpoint in it. What happens to users and to the application
// is counted, see [oauth.Event]; whose token it is, no signal says.
func (t *Telemetry) OAuth(c oauth.Config) oauth.Config {
	c.Observers = append(slices.Clip(c.Observers), oauth.Observer{
		Calls: t.calls(), RefreshStart: t.refreshStart, RefreshEnd: t.refreshEnd,
	})
	c.OnEvent = both(c.OnEvent, t.tokenEvent)
	return c
}

// both calls first, which may be nil, and then second, whatever first does.
func both[T any](first, second func(context.Context, T)) func(context.Context, T) {
	if first == nil {
		return second
	}
	return func(ctx context.Context, value T) {
		defer second(ctx, value)
		first(ctx, value)
	}
}

func (t *Telemetry) refreshStart(ctx context.Context, r oauth.Refresh) context.Context {
	attributes := append(environment(r.Key.Environment), signal.Background.Of(r.Background))
	ctx, span := t.tracer.Start(ctx, signal.NewShape("oauth.refresh", trace.SpanKindInternal, attributes...))
	return t.begun(ctx, ofRefresh, span)
}

func (t *Telemetry) refreshEnd(ctx context.Context, r oauth.RefreshResult) {
	span := t.begunIn(ctx, ofRefresh)
	defer span.End()
	outcome := string(r.Outcome)
	attributes := append(environment(r.Key.Environment), signal.Background.Of(r.Background), signal.RefreshOutcome.Of(outcome))
	span.Set(signal.RefreshOutcome.Of(outcome))
	if r.Outcome != oauth.RefreshDone && r.Outcome != oauth.RefreshFound {
		span.Fail(outcome)
		attributes = append(attributes, signal.Error.Of(outcome))
	}
	t.refreshDuration.Record(ctx, r.Duration, signal.NewSeries(attributes...))
}

// tokenEvent counts what happened.
func (t *Telemetry) tokenEvent(ctx context.Context, event oauth.Event) {
	attributes := append(environment(event.Subject().Environment), signal.TokenEvent.Of(nameOf(event)))
	if e, ok := event.(oauth.MustReauthorize); ok {
		attributes = append(attributes, signal.ReauthorizeReason.Of(string(e.Reason)))
	}
	t.tokenEvents.Count(ctx, signal.NewSeries(attributes...))
}

func nameOf(event oauth.Event) string {
	switch event.(type) {
	case oauth.Connected:
		return "connected"
	case oauth.Disconnected:
		return "disconnected"
	case oauth.Refreshed:
		return "refreshed"
	case oauth.MustReauthorize:
		return "must_reauthorize"
	case oauth.Restored:
		return "restored"
	case oauth.Unwritten:
		return "unwritten"
	case oauth.BreakerTripped:
		return "breaker_tripped"
	case oauth.ConfigFault:
		return "config_fault"
	}
	return other
}

// other stands for what this package does not know by name.
const other = "_OTHER"
