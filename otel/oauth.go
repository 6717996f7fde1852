package dispensaryotel

import (
	"context"
	"slices"

	"go.opentelemetry.io/otel/trace"

	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/tokens"
	"github.com/dispensary-go/dispensary/otel/internal/signal"
)

// OAuth returns c with observation added: calls of the token endpoint are spans, like
// those of the API. Observers that c has are called first.
func (t *Telemetry) OAuth(c oauth.Config) oauth.Config {
	c.Observers = append(slices.Clip(c.Observers), t.calls())
	return c
}

// Tokens returns c with observation added; observers that c has are called first.
//
// A refresh is a span "oauth.refresh", below the call that needed it, with the
// calls of the token endpoint in it. What happens to users and to the application
// is counted, see [tokens.Event]; whose token it is, no signal says.
func (t *Telemetry) Tokens(c tokens.Config) tokens.Config {
	c.Observers = append(slices.Clip(c.Observers), tokens.Observer{
		Event: t.tokenEvent, RefreshStart: t.refreshStart, RefreshEnd: t.refreshEnd,
	})
	return c
}

func (t *Telemetry) refreshStart(ctx context.Context, r tokens.Refresh) context.Context {
	attributes := append(environment(r.Key.Environment), signal.Background.Of(r.Background))
	ctx, _ = t.begin(ctx, ofRefresh, "oauth.refresh", trace.SpanKindInternal, trace.SpanContext{}, attributes...)
	return ctx
}

func (t *Telemetry) refreshEnd(ctx context.Context, r tokens.RefreshResult) {
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

// tokenEvent counts what happened.
func (t *Telemetry) tokenEvent(ctx context.Context, event tokens.Event) {
	attributes := append(environment(event.Subject().Environment), signal.TokenEvent.Of(nameOf(event)))
	if e, ok := event.(tokens.MustReauthorize); ok {
		attributes = append(attributes, signal.ReauthorizeReason.Of(string(e.Reason)))
	}
	t.tokenEvents.Count(ctx, attributes...)
}

func nameOf(event tokens.Event) string {
	switch event.(type) {
	case tokens.Connected:
		return "connected"
	case tokens.Disconnected:
		return "disconnected"
	case tokens.Refreshed:
		return "refreshed"
	case tokens.MustReauthorize:
		return "must_reauthorize"
	case tokens.Restored:
		return "restored"
	case tokens.CommitDelayed:
		return "commit_delayed"
	case tokens.BreakerTripped:
		return "breaker_tripped"
	case tokens.ConfigErrorDetected:
		return "config_error_detected"
	}
	return other
}
