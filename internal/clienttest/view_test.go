package clienttest_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/api/observe"
)

// view returns a view of a client.
func view(t testing.TB, client *dispensary.Client, options ...dispensary.Option) *dispensary.Client {
	t.Helper()
	made, err := client.With(options...)
	require.NoError(t, err)
	return made
}

// countingLimiter appends its name to a list at each call.
type countingLimiter struct {
	name  string
	asked *[]string
}

func (l countingLimiter) Wait(context.Context) error {
	*l.asked = append(*l.asked, l.name)
	return nil
}

// A view differs from its client only in its options, and it does not change the client.
func TestViewAppliesEveryOption(t *testing.T) {
	t.Parallel()
	var asked, calls []string
	var log bytes.Buffer
	var sent *http.Request
	var bounded time.Duration
	answer := func(name string) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			calls, sent = append(calls, name), r
			deadline, _ := r.Context().Deadline()
			bounded = time.Until(deadline).Round(time.Second)
			return nil, errors.New("no network")
		})
	}
	observer := func(name string) dispensary.Option {
		return dispensary.WithObserver(observe.Observer{CallEnd: func(context.Context, observe.CallResult) { calls = append(calls, name) }})
	}
	client, err := dispensary.New(sandboxSite(), dispensary.WithAccessToken("own"), dispensary.WithTransport(answer("own")),
		dispensary.WithLimiter(countingLimiter{"own", &asked}), dispensary.WithUserAgent("Own/1"), dispensary.WithAttemptTimeout(time.Hour),
		dispensary.WithRetryPolicy(dispensary.RetryPolicy{MaxAttempts: 2, MinWait: 1, MaxWait: 1}), observer("observed"))
	require.NoError(t, err)
	call := func(c *dispensary.Client) {
		t.Helper()
		asked, calls = nil, nil
		_, err := c.Clinic.Get(t.Context())
		require.Error(t, err)
	}
	other := view(t, client, nil, dispensary.WithAccessToken("other"), dispensary.WithTransport(answer("other")),
		dispensary.WithLimiter(countingLimiter{"other", &asked}), dispensary.WithUserAgent("Other/2"), dispensary.WithAttemptTimeout(time.Minute),
		dispensary.WithRetryPolicy(dispensary.RetryPolicy{MaxAttempts: 1}), dispensary.WithLogger(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))),
		dispensary.WithClinicKey(dispensary.NewSecret("key")), observer("observed by view"))
	call(other)
	assert.Equal(t, []string{"other", "own"}, asked, "the limiter of the view comes first")
	assert.Equal(t, []string{"other", "observed by view", "observed"}, calls)
	assert.Equal(t, "Bearer other", sent.Header.Get("Authorization"))
	assert.Equal(t, "key", sent.Header.Get("X-Svc-Clinic-Key"))
	assert.Equal(t, "Other/2 Own/1 dispensary-go/"+dispensary.Version(), sent.UserAgent())
	assert.Equal(t, time.Minute, bounded)
	assert.Contains(t, log.String(), "clinic.get")
	assert.Equal(t, client.Site(), other.Site())
	call(view(t, other))
	assert.Equal(t, "key", sent.Header.Get("X-Svc-Clinic-Key"), "a view of a view keeps the key")

	log.Reset()
	third := view(t, client, observer("observed by the third")) // must not replace the other observer
	for _, own := range []*dispensary.Client{client, view(t, client), view(t, client, dispensary.WithTokenSource(nil), dispensary.WithTransport(nil),
		dispensary.WithLimiter(nil), dispensary.WithLogger(nil))} {
		call(own)
		assert.Equal(t, []string{"own", "own"}, asked)
		assert.Equal(t, []string{"own", "own", "observed"}, calls)
		assert.Equal(t, "Bearer own", sent.Header.Get("Authorization"))
		assert.Empty(t, sent.Header.Get("X-Svc-Clinic-Key"))
		assert.Equal(t, "Own/1 dispensary-go/"+dispensary.Version(), sent.UserAgent())
		assert.Equal(t, time.Hour, bounded)
		assert.Empty(t, log.String())
	}
	call(third)
	assert.Equal(t, []string{"own", "own", "observed by the third", "observed"}, calls)
	call(other)
	assert.Equal(t, []string{"other", "observed by view", "observed"}, calls)
}

func TestViewRejectsInvalidOption(t *testing.T) {
	t.Parallel()
	client, err := dispensary.New(sandboxSite())
	require.NoError(t, err)
	for want, option := range map[string]dispensary.Option{
		"WithAccessToken(token) is empty":  dispensary.WithAccessToken(""),
		"WithUserAgent(product) is empty":  dispensary.WithUserAgent(""),
		"UserAgent contains a line break":  dispensary.WithUserAgent("a\nb"),
		"ClinicKey contains a line break":  dispensary.WithClinicKey(dispensary.NewSecret("a\nb")),
		"must not contain negative values": dispensary.WithRetryPolicy(dispensary.RetryPolicy{MaxAttempts: -1}),
	} {
		_, err := client.With(option)
		require.ErrorIs(t, err, api.ErrArgument, want)
		assert.ErrorContains(t, err, want)
	}
}
