package dispensaryotel

import (
	"context"

	"go.opentelemetry.io/otel/trace"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensaryotel/internal/signal"
	"github.com/dispensary-go/dispensary/oauth/tokens"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

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
