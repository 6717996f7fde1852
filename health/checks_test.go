package health_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/health"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/tokens"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

// store is a store that rejects writes if unwritable is true.
type store struct {
	tokenstore.Store
	unwritable atomic.Bool
}

var errDown = errors.New("down")

func (s *store) CheckWrite(ctx context.Context) error {
	if s.unwritable.Load() {
		return errDown
	}
	return s.Store.CheckWrite(ctx)
}

func (s *store) Commit(ctx context.Context, lease tokenstore.Lease, token oauth.Token) (tokenstore.Record, error) {
	if s.unwritable.Load() {
		return tokenstore.Record{}, errDown
	}
	return s.Store.Commit(ctx, lease, token)
}

func TestStoreFailsWithoutWrites(t *testing.T) {
	t.Parallel()
	s := &store{Store: tokenstore.NewMemoryStore()}
	check := health.Store(s)
	assert.Equal(t, health.Result{Status: health.StatusOK}, check(t.Context()))
	s.unwritable.Store(true)
	assert.Equal(t, health.Result{Status: health.StatusFailing, Err: errDown}, check(t.Context()))
}

// All replicas share a slow database, and the same load uses all connections of each of them. If all
// replicas failed because of this, the load balancer would have none left.
func TestSlowStoreDegrades(t *testing.T) {
	t.Parallel()
	late, cancel := context.WithDeadline(t.Context(), time.Now())
	defer cancel()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, check := range map[string]health.Check{
		"store":       health.Store(tokenstore.NewMemoryStore()),
		"inbox":       health.Inbox(&inbox{unwritable: errDown}, time.Hour),
		"slow counts": health.Inbox(&inbox{err: errDown}, time.Hour),
	} {
		result := check(late)
		assert.Equal(t, health.StatusDegraded, result.Status, name)
		require.ErrorContains(t, result.Err, "does not respond in time: ", name)
		assert.Equal(t, health.StatusFailing, check(ended).Status, name)
	}
}

// inbox is an engine with the stats and errors of a test.
type inbox struct {
	engine.Engine
	stats           engine.Stats
	err, unwritable error
}

func (i *inbox) CheckWrite(context.Context) error { return i.unwritable }

func (i *inbox) Stats(context.Context) (engine.Stats, error) { return i.stats, i.err }

func TestInboxReportsStats(t *testing.T) {
	t.Parallel()
	i := &inbox{}
	check := health.Inbox(i, time.Hour)
	result := check(t.Context())
	assert.Equal(t, health.StatusOK, result.Status)
	assert.Equal(t, map[string]any{"waiting": 0, "running": 0, "dead": 0, "overdue": 0, "oldest_seconds": 0}, result.Details)

	i.stats = engine.Stats{Waiting: 7, Running: 2, Dead: 1, Oldest: time.Now().Add(-2 * time.Hour)}
	result = check(t.Context())
	assert.Equal(t, health.StatusDegraded, result.Status, "another replica would not handle the event either")
	assert.Equal(t, 7, result.Details["waiting"])
	assert.GreaterOrEqual(t, result.Details["oldest_seconds"], 7200)
	require.ErrorContains(t, result.Err, "longer than 1h")

	i.stats.Oldest = time.Now().Add(-time.Minute)
	assert.Equal(t, health.StatusOK, check(t.Context()).Status)
	i.stats.Overdue = 2
	result = check(t.Context())
	assert.Equal(t, health.StatusDegraded, result.Status)
	assert.Equal(t, 2, result.Details["overdue"])

	i.err = errDown
	assert.Equal(t, health.Result{Status: health.StatusFailing, Err: errDown}, check(t.Context()))
	i.unwritable = webhook.ErrInboxClosed
	assert.Equal(t, health.Result{Status: health.StatusFailing, Err: webhook.ErrInboxClosed}, check(t.Context()))
}

func TestAlarmReportsOutage(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 4, 9, 0, 0, 0, time.UTC)
	alarm, err := webhook.NewAlarm(webhook.AlarmConfig{Notify: func(context.Context, webhook.Outage) {}, Now: func() time.Time { return now }})
	require.NoError(t, err)
	check := health.Alarm(alarm)
	for range 2 {
		alarm.Observe(t.Context(), webhook.Observation{Outcome: webhook.OutcomeUnavailable, Err: webhook.ErrInbox})
		assert.Equal(t, health.Result{Status: health.StatusOK}, check(t.Context()), "not yet an outage")
	}
	alarm.Observe(t.Context(), webhook.Observation{Outcome: webhook.OutcomeUnavailable, Err: webhook.ErrInbox})
	assert.Equal(t, health.Result{
		Status: health.StatusDegraded, Err: webhook.ErrInbox, Details: map[string]any{"outages": 1, "kind": "failing", "since": "2026-03-04T09:00:00Z", "failures": 3},
	}, check(t.Context()))
	alarm.Observe(t.Context(), webhook.Observation{Outcome: webhook.OutcomeAccepted})
	assert.Equal(t, health.Result{Status: health.StatusOK}, check(t.Context()))

	for range 12*60 + 1 {
		alarm.Observe(t.Context(), webhook.Observation{Outcome: webhook.OutcomeRejected, Err: webhook.ErrSignatureMismatch})
		now = now.Add(time.Minute)
	}
	assert.Equal(t, health.Result{
		Status: health.StatusDegraded, Err: webhook.ErrSignatureMismatch, Details: map[string]any{"outages": 1, "kind": "rejecting", "since": "2026-03-04T09:00:00Z"},
	}, check(t.Context()), "the number of failures must not be shown to strangers")

	now = now.Add(time.Hour)
	for range 3 {
		alarm.Observe(t.Context(), webhook.Observation{Outcome: webhook.OutcomeUnavailable, Err: webhook.ErrInbox, Tenant: "oak"})
	}
	alarm.Observe(t.Context(), webhook.Observation{Outcome: webhook.OutcomeAccepted})
	result := check(t.Context())
	assert.NotContains(t, result.Details, "oak", "strangers may read the details")
	assert.EqualError(t, result.Err, "tenant oak: "+webhook.ErrInbox.Error())
}

// connected returns a connected user with the platform and the store.
func connected(t *testing.T, observers ...tokens.Observer) (*dispensarytest.Server, *store, *tokens.Connections, tokens.TokenSource) {
	t.Helper()
	platform := dispensarytest.New(t, dispensarytest.WithInMemory())
	app := platform.Application()
	client, err := oauth.New(oauth.Config{
		Site: platform.Site(), ClientID: app.ClientID, ClientSecret: api.NewSecret(app.ClientSecret),
		RedirectURL: app.RedirectURI, Transport: platform.HTTPClient().Transport,
	})
	require.NoError(t, err)
	s := &store{Store: tokenstore.NewMemoryStore()}
	conns, err := tokens.NewConnections(tokens.Config{Client: client, Store: s, Observers: observers})
	require.NoError(t, err)
	return platform, s, conns, connect(t, platform, conns, s, "dr-17")
}

// connect stores the tokens of a user.
func connect(t *testing.T, platform *dispensarytest.Server, conns *tokens.Connections, s *store, user string) tokens.TokenSource {
	t.Helper()
	issued := platform.Tokens.Issue(model.User{})
	_, err := s.Save(t.Context(), conns.Key(user), oauth.Token{
		AccessToken: api.NewSecret(issued.AccessToken), RefreshToken: api.NewSecret(issued.RefreshToken),
		ExpiresAt: time.Now().Add(time.Hour), Environment: platform.Site().Environment,
	})
	require.NoError(t, err)
	return conns.TokenSource(user)
}

// refresh forces a refresh of the token.
func refresh(t *testing.T, source tokens.TokenSource) error {
	t.Helper()
	token, err := source.Token(t.Context())
	require.NoError(t, err)
	_, err = source.Refresh(t.Context(), token)
	return err
}

func TestTokenRefreshReportsPause(t *testing.T) {
	t.Parallel()
	platform, s, conns, source := connected(t)
	check := health.TokenRefresh(conns)
	assert.Equal(t, health.Result{Status: health.StatusOK, Details: map[string]any{"pending_commits": 0}}, check(t.Context()))
	rejected := []tokens.TokenSource{source}
	for n := range 9 {
		rejected = append(rejected, connect(t, platform, conns, s, fmt.Sprint("dr-", n)))
	}
	platform.Tokens.InvalidateAll()
	for _, source := range rejected {
		require.Error(t, refresh(t, source))
	}
	result := check(t.Context())
	assert.Equal(t, health.StatusDegraded, result.Status)
	until, err := time.Parse(time.RFC3339, result.Details["paused_until"].(string))
	require.NoError(t, err)
	assert.Greater(t, time.Until(until), time.Duration(0))
}

func TestUnstoredTokensDegradeTokenRefresh(t *testing.T) {
	t.Parallel()
	delayed := make(chan struct{}, 1)
	_, s, conns, source := connected(t, tokens.Observer{CommitDelayed: func(context.Context, tokens.CommitDelayed) { delayed <- struct{}{} }})
	token, err := source.Token(t.Context())
	require.NoError(t, err)
	s.unwritable.Store(true)
	go func() { _, _ = source.Refresh(context.Background(), token) }()
	<-delayed
	check := health.TokenRefresh(conns)
	result := check(t.Context())
	assert.Equal(t, health.StatusDegraded, result.Status)
	assert.Equal(t, map[string]any{"pending_commits": 1}, result.Details)
	s.unwritable.Store(false)
	require.NoError(t, conns.Close(t.Context()))
	assert.Equal(t, health.StatusOK, check(t.Context()).Status)
}

func TestReconcileReportsMissedRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var stats reconcile.ClinicsStats
		check := health.Reconcile(func() reconcile.ClinicsStats { return stats }, time.Hour)
		status := func() health.Status { return check(t.Context()).Status }
		assert.Equal(t, health.StatusOK, status(), "the first pass has not begun")
		time.Sleep(3*time.Hour + time.Second)
		result := check(t.Context())
		assert.Equal(t, health.StatusDegraded, result.Status)
		assert.ErrorContains(t, result.Err, "no replica reconciles the environment")
		assert.NotContains(t, result.Details, "pass_seconds")

		stats.Taken, stats.PassBegan = time.Now(), time.Now().Add(-time.Minute)
		result = check(t.Context())
		assert.Equal(t, health.StatusOK, result.Status)
		assert.Equal(t, 60, result.Details["pass_seconds"])

		since := time.Now()
		stats.NoWebhooks, stats.NoWebhooksSince, stats.Retries = 2, since, 3
		result = check(t.Context())
		assert.Equal(t, health.StatusDegraded, result.Status)
		assert.ErrorContains(t, result.Err, "events arrive only by reconciliation")
		assert.Equal(t, since.UTC().Format(time.RFC3339), result.Details["without_webhooks_since"])
		assert.Equal(t, 2, result.Details["clinics_without_webhooks"])
		assert.Equal(t, 3, result.Details["events_retried"])

		disconnected := fmt.Errorf("no user: %w", api.ErrReauthorize)
		stats = reconcile.ClinicsStats{Taken: since, Failing: []reconcile.FailingClinic{{Since: since, Err: disconnected}, {Since: since, Err: errors.New("403")}}}
		assert.Equal(t, health.StatusOK, status(), "a short failure does not degrade the check")
		time.Sleep(25 * time.Hour)
		stats.Taken = time.Now()
		result = check(t.Context())
		assert.Equal(t, health.StatusDegraded, result.Status)
		assert.ErrorContains(t, result.Err, "not been reconciled for a day")
		assert.Equal(t, 1, result.Details["clinics_failing"])
		assert.Equal(t, 1, result.Details["clinics_disconnected"])
		stats.Failing = stats.Failing[:1]
		assert.Equal(t, health.StatusOK, status(), "only a user can connect the clinic")
	})
}
