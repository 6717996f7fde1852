package tokens_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/testkit/logtest"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/internal/oauthtest"
	"github.com/dispensary-go/dispensary/oauth/tokens"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// canary marks every secret of the test. It must not appear in any text.
const canary = oauthtest.Canary

func canaryToken(left time.Duration) oauth.Token {
	token := oauthtest.FirstToken(left)
	token.AccessToken, token.RefreshToken = api.NewSecret(canary+"-access"), api.NewSecret(canary+"-refresh")
	token.Replaced = []oauth.ReplacedGrant{{AccessToken: api.NewSecret(canary + "-replaced-access"), RefreshToken: api.NewSecret(canary + "-replaced-refresh")}}
	return token
}

func TestValuesPrintNoSecret(t *testing.T) {
	oauthtest.Bubble(t, func(t *testing.T) {
		c := oauthtest.Config(oauthtest.NewPlatform(oauthtest.RotateNever))
		c.ClientSecret = api.NewSecret(canary + "-secret")
		client, err := oauth.New(c)
		require.NoError(t, err)
		store := tokenstore.NewMemoryStore()
		conns, err := tokens.NewConnections(tokens.Config{Client: client, Store: store})
		require.NoError(t, err)
		record, err := store.Save(t.Context(), conns.Key(user), canaryToken(time.Hour))
		require.NoError(t, err)
		source := conns.TokenSource(user)
		access, err := source.Token(t.Context())
		require.NoError(t, err)
		token := canaryToken(time.Hour)
		c.Transport = nil // contains no secret, and prints a map of URLs
		for name, value := range map[string]any{
			"Config": c, "*Config": &c, "Client": client, "Connections": conns, "Token": token, "*Token": &token, "AccessToken": access,
			"Record": record, "*Record": &record, "[]Token": []oauth.Token{token}, "map": map[string]tokenstore.Record{"a": record},
			"Store": store, "Source": source,
		} {
			oauthtest.RequireClean(t, name, value)
		}
		hidden := struct {
			client *oauth.Client
			conns  *tokens.Connections
			source tokens.TokenSource
			store  tokenstore.Store
			token  oauth.Token
			config oauth.Config
			access api.AccessToken
			record tokenstore.Record
		}{client, conns, source, store, token, c, access, record}
		require.NotContains(t, fmt.Sprintf("%v %+v %#v", hidden, hidden, hidden), canary)
	})
}

func TestErrorsAndLogsContainNoSecret(t *testing.T) {
	echo := `{"error":"%s","error_description":"` + canary + `","refresh_token":"` + canary + `"}`
	oauthtest.Each(t, map[string]oauthtest.Fault{
		"success":        oauthtest.Responses(200, `{"oauth":{"access_token":"`+canary+`-2","refresh_token":"`+canary+`-3"}}`),
		"invalid_grant":  oauthtest.Responses(401, fmt.Sprintf(echo, "invalid_grant")),
		"invalid_client": oauthtest.Responses(401, fmt.Sprintf(echo, "invalid_client")),
		"plain text":     oauthtest.Responses(422, fmt.Sprintf(echo, canary)),
		"server error":   oauthtest.Responses(500, canary),
		"truncated":      oauthtest.Responses(200, `{"oauth":{"access_token":"`+canary),
		"wrong types":    oauthtest.Responses(200, `{"oauth":{"access_token":["`+canary+`"]}}`),
		"unusable":       oauthtest.Responses(200, `{"oauth":{"access_token":"`+canary+` \n"}}`),
		"network":        func(func() *http.Response) (*http.Response, error) { return nil, errors.New(canary) },
	}, func(t *testing.T, f oauthtest.Fault) {
		p := oauthtest.NewPlatform(oauthtest.RotateNever)
		logs := &logtest.Buffer{}
		store := oauthtest.NewFlakyStore()
		conns := newConns(t, p, store, func(c *settings) {
			c.ClientSecret = api.NewSecret(canary + "-secret")
			c.Logger = slog.New(slog.NewTextHandler(logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
		})
		_, err := store.Save(t.Context(), conns.Key(user), canaryToken(-time.Hour))
		require.NoError(t, err)

		var all []error
		keep := func(err error) {
			for e := err; e != nil; e = errors.Unwrap(e) {
				all = append(all, e)
			}
		}
		try := func(do func() error) { p.Replace(oauthtest.Times(3, f)...); keep(do()) }
		try(func() error {
			_, err := conns.Client().Exchange(t.Context(), api.NewSecret(canary+"-code"))
			return err
		})
		try(func() error { _, err := conns.Client().Refresh(t.Context(), canaryToken(0)); return err })
		try(func() error { return conns.Client().Revoke(t.Context(), canaryToken(0)) })
		source := conns.TokenSource(user)
		try(func() error { _, err := source.Token(t.Context()); return err })
		time.Sleep(5 * time.Minute)
		store.Break("Commit", errors.New("away"))
		try(func() error { _, err := source.Refresh(t.Context(), canaryToken(0).Access()); return err })
		store.Break("Commit", nil)
		_, err = conns.TokenSource("other").Token(t.Context())
		keep(err)
		require.NoError(t, conns.Close(t.Context()))

		require.NotEmpty(t, all)
		for _, err := range all {
			oauthtest.RequireClean(t, fmt.Sprintf("%T", err), err)
		}
		assert.NotContains(t, logs.String(), canary)
		assert.NotEmpty(t, logs.String())
	})
}

func TestStringsNameTheUser(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, time.Hour, func(t *testing.T, w *fixture) {
		assert.Equal(t, "oauth.Client{us/sandbox}", fmt.Sprint(w.conns.Client()))
		assert.Equal(t, "tokens.Connections{us/sandbox}", fmt.Sprint(w.conns))
		assert.Equal(t, "tokens.TokenSource{us/sandbox/user-17}", fmt.Sprint(w.source))
		assert.Equal(t, w.conns.Key(user), w.source.Key())
		assert.Equal(t, `oauth.Token{us/sandbox Practitioner prac-1 expires 2000-01-01T01:00:00Z access [redacted] refresh [redacted]}`,
			fmt.Sprint(oauthtest.FirstToken(time.Hour)))
		record := w.record(t)
		assert.Equal(t, "tokenstore.Record{us/sandbox/user-17 version 1 active}", fmt.Sprint(record))
		record.State, record.Reason = tokenstore.StateReauthorize, tokenstore.ReasonInvalidGrant
		assert.Equal(t, "tokenstore.Record{us/sandbox/user-17 version 1 reauthorize invalid_grant}", fmt.Sprint(record))
		_, err := w.conns.TokenSource("nobody").Token(t.Context())
		assert.Equal(t, "tokens: us/sandbox/nobody must authorize again: not_connected", fmt.Sprintf("%+v", err))

		var buf bytes.Buffer
		slog.New(slog.NewTextHandler(&buf, nil)).Info("x", "err", err, "client", w.conns, "record", record)
		assert.Contains(t, buf.String(), "err.reason=not_connected")
		assert.Contains(t, buf.String(), "record.token.owner_id=prac-1")
		_, err = oauth.New(oauth.Config{})
		require.Error(t, err)
		require.NotErrorIs(t, err, api.ErrReauthorize)
	})
}

// Observers, claims and logs of KeepFresh contain no secret.
func TestKeepFreshRevealsNoSecret(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, 24*time.Hour, func(t *testing.T, w *fixture) {
		a := w.watched(t)
		token := canaryToken(time.Minute)
		token.UsedAt = time.Now()
		w.save(t, token)
		w.store.Break("Commit", errors.New("away"))
		w.platform.Inject(oauthtest.Responses(200, `{"oauth":{"access_token":"`+canary+`-2","refresh_token":"`+canary+`-3"}}`))
		stop := runs(t, w.conns, tokens.KeepFreshPolicy{})
		time.Sleep(5 * time.Minute)
		w.store.Break("Commit", nil)
		time.Sleep(3 * time.Hour) // the platform does not know the pair, so the user is marked
		w.platform.Inject(oauthtest.Responses(401, `{"error":"invalid_client","error_description":"`+canary+`"}`))
		_, err := w.conns.Client().Refresh(t.Context(), canaryToken(0))
		require.Error(t, err)
		stop()
		require.NoError(t, w.conns.Disconnect(t.Context(), user))
		require.NotEmpty(t, eventsOf[tokens.CommitDelayed](a))
		require.NotEmpty(t, eventsOf[*tokens.ReauthorizeError](a))
		require.NotEmpty(t, eventsOf[disconnected](a))
		for _, event := range a.all {
			oauthtest.RequireClean(t, fmt.Sprintf("%T", event), event)
		}
		assert.NotContains(t, w.logs.String(), canary)
		assert.Positive(t, strings.Count(w.logs.String(), "\n"))
		records, err := w.store.List(t.Context(), tokenstore.Listing{Environment: oauthtest.USSandbox, Limit: 10})
		require.NoError(t, err)
		oauthtest.RequireClean(t, "List", records)
	})
}
