package dispensaryotel_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api/observe"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/tokens"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// connected is a user with an observed client and token refreshes.
type connected struct {
	*recorded
	platform  *dispensarytest.Server
	conns     *tokens.Connections
	store     tokenstore.Store
	client    *dispensary.Client
	refreshes int // refreshes reported to the program's own observer
}

const user = "user-of-the-integrator"

// connect connects a user. The first token expires after the given lifetime.
func connect(t *testing.T, lifetime time.Duration) *connected {
	t.Helper()
	return connectTo(t, record(t), lifetime)
}

func connectTo(t *testing.T, r *recorded, lifetime time.Duration) *connected {
	t.Helper()
	c := &connected{recorded: r, platform: dispensarytest.New(t), store: tokenstore.NewMemoryStore()}
	app := c.platform.Application()
	client, err := oauth.New(oauth.Config{
		Observers: []observe.Observer{c.Calls()},
		Site:      c.platform.Site(), Transport: c.platform.HTTPClient().Transport, RedirectURL: app.RedirectURI,
		ClientID: app.ClientID, ClientSecret: dispensary.NewSecret(app.ClientSecret),
	})
	require.NoError(t, err)
	c.conns, err = tokens.NewConnections(tokens.Config{
		Client: client, Store: c.store, Observers: []tokens.Observer{{RefreshEnd: func(context.Context, tokens.Refresh) {
			c.refreshes++
			panic("an observer of the program's own")
		}}, c.Tokens()},
	})
	require.NoError(t, err)
	issued := c.platform.Tokens.Issue(c.platform.Users()[0])
	_, err = c.store.Save(t.Context(), c.conns.Key(user), oauth.Token{
		AccessToken: dispensary.NewSecret(issued.AccessToken), RefreshToken: dispensary.NewSecret(issued.RefreshToken),
		ExpiresAt: time.Now().Add(lifetime), Environment: c.platform.Site().Environment,
	})
	require.NoError(t, err)
	c.client = c.platform.Client(model.User{}, dispensary.WithObserver(c.Calls()), dispensary.WithTokenSource(c.conns.TokenSource(user)))
	return c
}

// A refresh is a span below its call, and contains the call of the token endpoint.
func TestRefreshIsBelowCall(t *testing.T) {
	t.Parallel()
	c := connect(t, -time.Minute)
	_, err := c.client.Clinic.Get(t.Context())
	require.NoError(t, err)
	call, refresh, token := c.one(t, "clinic.get"), c.one(t, "oauth.refresh"), c.one(t, "oauth.token")
	requireChild(t, call, refresh)
	requireChild(t, refresh, token)
	requireChild(t, token, c.one(t, "POST /oauth/token"))
	requireChild(t, call, c.one(t, "GET /clinic"))
	assert.Equal(t, map[string]string{
		"dispensary.oauth.refresh.outcome": "refreshed", "dispensary.oauth.refresh.background": "false",
		"dispensary.region": "us", "dispensary.stage": "sandbox",
	}, set(refresh))
	assert.Equal(t, []point{{set(refresh), 1}}, c.points(t, "dispensary.oauth.refresh.duration"))
	assert.Equal(t, 1, c.refreshes, "the program's own hook must run, and its panic must not fail the call")
	assert.NotContains(t, c.dump(t), user)
}

// A rejected token is replaced within the call, and the next attempt records the reason.
func TestRejectedTokenIsReplacedWithinCall(t *testing.T) {
	t.Parallel()
	c := connect(t, time.Hour)
	c.platform.Fault(model.Fault{Operation: "clinic.get", Effect: model.EffectTokenExpired, Times: 1})
	_, err := c.client.Clinic.Get(t.Context())
	require.NoError(t, err)
	attempts := c.ended("GET /clinic")
	require.Len(t, attempts, 2)
	assert.Equal(t, "401", set(attempts[0])["error.type"])
	assert.Equal(t, "unauthorized", set(attempts[1])["dispensary.retry.reason"])
	requireChild(t, c.one(t, "clinic.get"), c.one(t, "oauth.refresh"))
	assert.Equal(t, codes.Unset, c.one(t, "clinic.get").Status.Code)
}

// A user who must reauthorize is counted by reason, without the user's ID.
func TestReauthorizationIsCountedByReason(t *testing.T) {
	t.Parallel()
	c := connect(t, -time.Minute)
	record, err := c.conns.Record(t.Context(), user)
	require.NoError(t, err)
	record.Token.RefreshToken = dispensary.Secret{}
	_, err = c.store.Save(t.Context(), record.Key, record.Token)
	require.NoError(t, err)
	_, err = c.client.Clinic.Get(t.Context())
	require.ErrorIs(t, err, dispensary.ErrReauthorize)
	assert.Equal(t, "reauthorize", set(c.one(t, "clinic.get"))["error.type"])
	refresh := c.one(t, "oauth.refresh")
	assert.Equal(t, codes.Error, refresh.Status.Code)
	assert.Equal(t, "reauthorize", set(refresh)["error.type"])
	assert.Equal(t, []point{{map[string]string{
		"dispensary.oauth.event": "must_reauthorize", "dispensary.oauth.reason": "invalid_grant", "dispensary.region": "us", "dispensary.stage": "sandbox",
	}, 1}}, c.points(t, "dispensary.oauth.events"))
	assert.NotContains(t, c.dump(t), user)
}

func TestEventsHaveNames(t *testing.T) {
	t.Parallel()
	r, ctx := record(t), t.Context()
	observe := r.Tokens()
	observe.Connected(ctx, tokens.Authorization{})
	observe.Disconnected(ctx, tokenstore.Key{})
	observe.MustReauthorize(ctx, &tokens.ReauthorizeError{})
	observe.Restored(ctx, tokenstore.Key{})
	observe.CommitDelayed(ctx, tokens.CommitDelayed{Err: errors.New("away")})
	observe.MassRejection(ctx, tokens.MassRejection{})
	observe.ConfigErrorDetected(ctx, tokens.ConfigErrorDetected{Err: &oauth.ConfigError{}})
	var names []string
	for _, p := range r.points(t, "dispensary.oauth.events") {
		names = append(names, p.attributes["dispensary.oauth.event"])
	}
	assert.ElementsMatch(t, []string{
		"connected", "disconnected", "must_reauthorize", "restored", "commit_delayed", "mass_rejection", "config_error_detected",
	}, names)
}
