package oauth_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth"
)

// The whole browser flow, well and in every way not: neither the code, nor the
// state, nor a token, nor a key is in a page, a log, an event or a result.
func TestTheFlowShowsNoSecret(t *testing.T) {
	t.Parallel()
	good := answers(200, `{"oauth":{"access_token":"`+canary+`-a","refresh_token":"`+canary+`-r","resource_owner":{"id":"prac-1","type":"Practitioner"}}}`)
	echo := `{"error":"%s","error_description":"` + canary + `"}`
	for name, f := range map[string]fault{
		"connected":      good,
		"code refused":   answers(400, fmt.Sprintf(echo, "invalid_grant")),
		"app refused":    answers(401, fmt.Sprintf(echo, "invalid_client")),
		"server error":   answers(500, canary),
		"truncated":      answers(200, `{"oauth":{"access_token":"`+canary),
		"network":        func(func() *http.Response) (*http.Response, error) { return nil, errors.New(canary) },
		"unknown answer": answers(418, canary),
	} {
		for _, broken := range []string{"", "Save", "Load"} {
			t.Run(name+" "+broken, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					s := newSite(t, func(c *oauth.Config, h *oauth.HandlerConfig) {
						c.ClientSecret = canary + "-secret"
						h.StateKeys = []api.Secret{canary + "-0123456789abcdef0123456789abcdef"}
						h.Verify = func(_ context.Context, grant oauth.Authorization) error {
							requireClean(t, "Authorization", grant)
							return nil
						}
					})
					if broken != "" {
						s.store.breaks(broken, errors.New("away"))
					}
					s.platform.inject(f)
					b := newBrowser()
					state := b.begin(t, s, "")
					var cookie string
					for _, c := range b.cookies {
						cookie = c.Value
					}
					answer := b.back(s, url.Values{"code": {canary + "-code"}, "state": {state}})
					again := b.back(s, url.Values{"code": {canary + "-code"}, "state": {state}})
					shown := read(t, answer) + read(t, again) + fmt.Sprint(answer.Header, again.Header) + s.logs.String()
					for _, secret := range []string{canary, state, cookie} {
						assert.NotContains(t, shown, secret)
					}
					for _, result := range s.results {
						requireClean(t, "Result", result)
						for e := result.Err; e != nil; e = errors.Unwrap(e) {
							requireClean(t, fmt.Sprintf("%T", e), e)
						}
						assert.NotContains(t, fmt.Sprintf("%+v", result), state)
					}
					for _, event := range s.events {
						requireClean(t, fmt.Sprintf("%T", event), event)
					}
					requireClean(t, "Handler", s.handler)
				})
			})
		}
	}
}

// Events, claims and the refresher's log of a canary's life.
func TestTheRefresherShowsNoSecret(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, none, 24*time.Hour)
		a := w.watched(t, oauth.BreakerPolicy{Users: 1})
		token := canaryToken(time.Minute)
		token.UsedAt = time.Now()
		w.save(t, token)
		w.store.breaks("Commit", errors.New("away"))
		w.platform.inject(answers(200, `{"oauth":{"access_token":"`+canary+`-2","refresh_token":"`+canary+`-3"}}`))
		stop := runs(t, w.client, w.store, oauth.RefreshPolicy{})
		time.Sleep(5 * time.Minute)
		w.store.breaks("Commit", nil)
		time.Sleep(3 * time.Hour) // the platform does not know the pair: the user is marked, the breaker trips
		w.platform.inject(answers(401, `{"error":"invalid_client","error_description":"`+canary+`"}`))
		_, err := w.client.Refresh(t.Context(), canaryToken(0))
		require.Error(t, err)
		stop()
		require.NoError(t, w.client.Disconnect(t.Context(), w.store, user))
		require.NotEmpty(t, eventsOf[oauth.Unwritten](a))
		require.NotEmpty(t, eventsOf[oauth.MustReauthorize](a))
		require.NotEmpty(t, eventsOf[oauth.BreakerTripped](a))
		require.NotEmpty(t, eventsOf[oauth.Disconnected](a))
		for _, event := range a.all {
			requireClean(t, fmt.Sprintf("%T", event), event)
		}
		assert.NotContains(t, w.logs.String(), canary)
		assert.Positive(t, strings.Count(w.logs.String(), "\n"))
		records, err := w.store.List(t.Context(), oauth.Listing{Environment: usSandbox, Limit: 10})
		require.NoError(t, err)
		requireClean(t, "List", records)
	})
}
