package oauth_test

import (
	"bytes"
	"encoding/json"
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
	"github.com/dispensary-go/dispensary/oauth"
)

// canary marks every secret of the test: it must show up nowhere.
const canary = "c4n4ry"

func canaryToken(left time.Duration) oauth.Token {
	token := firstToken(left)
	token.AccessToken, token.RefreshToken = canary+"-access", canary+"-refresh"
	return token
}

// requireClean prints a value in every way there is but %p, for which fmt asks
// no method of anything; vet finds it on what is no pointer.
func requireClean(t *testing.T, name string, value any) {
	t.Helper()
	var out strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x", "%X", "%t", "%T", "%10.2s", "%08b"} {
		fmt.Fprintf(&out, verb+"\n", value)
		fmt.Fprintf(&out, verb+"\n", &value)
	}
	fmt.Fprintln(&out, value)
	data, _ := json.Marshal(value)
	out.Write(data)
	for _, handler := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
		slog.New(handler).Info("canary", "value", value, slog.Group("group", "value", value))
	}
	text := out.String()
	for _, form := range []string{canary, fmt.Sprintf("%x", canary), fmt.Sprintf("%X", canary)} {
		require.NotContains(t, text, form, name)
	}
}

func TestNothingPrintsASecret(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := config(newPlatform(none))
		c.ClientSecret = canary + "-secret"
		client, err := oauth.New(c)
		require.NoError(t, err)
		store := oauth.NewMemoryStore()
		record, err := store.Save(t.Context(), client.Key(user), canaryToken(time.Hour))
		require.NoError(t, err)
		source := client.TokenSource(store, user)
		access, err := source.Token(t.Context())
		require.NoError(t, err)
		token := canaryToken(time.Hour)
		c.HTTPClient = nil // holds nothing, and prints a map of addresses
		for name, value := range map[string]any{
			"Config": c, "*Config": &c, "Client": client, "Token": token, "*Token": &token, "AccessToken": access,
			"Record": record, "*Record": &record, "[]Token": []oauth.Token{token}, "map": map[string]oauth.Record{"a": record},
			"Store": store, "Source": source, "Static": oauth.Static(token),
			"FromOAuth2": oauth.FromOAuth2(tokenFunc(nil), usSandbox),
		} {
			requireClean(t, name, value)
		}
		// fmt reads unexported fields without asking; pointers keep it out.
		hidden := struct {
			client *oauth.Client
			source *oauth.UserTokenSource
			store  oauth.Store
			token  *oauth.Token
		}{client, source, store, &token}
		require.NotContains(t, fmt.Sprintf("%v %+v %#v", hidden, hidden, hidden), canary)
	})
}

func TestNoErrorAndNoLogHoldsASecret(t *testing.T) {
	t.Parallel()
	echo := `{"error":"%s","error_description":"` + canary + `","refresh_token":"` + canary + `"}`
	for name, f := range map[string]fault{
		"success":        answers(200, `{"oauth":{"access_token":"`+canary+`-2","refresh_token":"`+canary+`-3"}}`),
		"invalid_grant":  answers(401, fmt.Sprintf(echo, "invalid_grant")),
		"invalid_client": answers(401, fmt.Sprintf(echo, "invalid_client")),
		"plain words":    answers(422, fmt.Sprintf(echo, canary)),
		"server error":   answers(500, canary),
		"truncated":      answers(200, `{"oauth":{"access_token":"`+canary),
		"wrong types":    answers(200, `{"oauth":{"access_token":["`+canary+`"]}}`),
		"unusable":       answers(200, `{"oauth":{"access_token":"`+canary+` \n"}}`),
		"network":        func(func() *http.Response) (*http.Response, error) { return nil, errors.New(canary) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				p := newPlatform(none)
				logs := &logBuffer{}
				client := newClient(t, p, func(c *oauth.Config) {
					c.ClientSecret = canary + "-secret"
					c.Logger = slog.New(slog.NewTextHandler(logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
				})
				store := newBrittleStore()
				_, err := store.Save(t.Context(), client.Key(user), canaryToken(-time.Hour))
				require.NoError(t, err)

				var all []error
				keep := func(err error) {
					for e := err; e != nil; e = errors.Unwrap(e) {
						all = append(all, e)
					}
				}
				try := func(do func() error) { p.replace(times(3, f)...); keep(do()) }
				try(func() error { _, err := client.Exchange(t.Context(), canary+"-code"); return err })
				try(func() error { _, err := client.Refresh(t.Context(), canaryToken(0)); return err })
				try(func() error { return client.Revoke(t.Context(), canaryToken(0)) })
				source := client.TokenSource(store, user)
				try(func() error { _, err := source.Token(t.Context()); return err })
				time.Sleep(5 * time.Minute)
				store.breaks("Commit", errors.New("away"))
				try(func() error { _, err := source.Refresh(t.Context(), canaryToken(0).Access()); return err })
				store.breaks("Commit", nil)
				source.Refused(t.Context(), canaryToken(0).Access())
				_, err = client.TokenSource(store, "other").Token(t.Context())
				keep(err)
				require.NoError(t, client.Shutdown(t.Context()))

				require.NotEmpty(t, all)
				for _, err := range all {
					requireClean(t, fmt.Sprintf("%T", err), err)
				}
				assert.NotContains(t, logs.String(), canary)
				assert.NotEmpty(t, logs.String())
			})
		})
	}
}

func TestTextsForPeople(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, none, time.Hour)
		assert.Equal(t, "oauth.Client{us/sandbox}", fmt.Sprint(w.client))
		assert.Equal(t, "oauth.UserTokenSource{us/sandbox/user-17}", fmt.Sprint(w.source))
		assert.Equal(t, w.client.Key(user), w.source.Key())
		assert.Equal(t, `oauth.Token{us/sandbox Practitioner prac-1 expires 2000-01-01T01:00:00Z access [redacted] refresh [redacted]}`,
			fmt.Sprint(firstToken(time.Hour)))
		record := w.record(t)
		assert.Equal(t, "oauth.Record{us/sandbox/user-17 version 1 active}", fmt.Sprint(record))
		record.State, record.Reason = oauth.StateReauthorize, oauth.ReasonInvalidGrant
		assert.Equal(t, "oauth.Record{us/sandbox/user-17 version 1 reauthorize invalid_grant}", fmt.Sprint(record))
		_, err := w.client.TokenSource(w.store, "nobody").Token(t.Context())
		assert.Equal(t, "dispensary: us/sandbox/nobody must authorize again: not_connected", fmt.Sprintf("%+v", err))

		var buf bytes.Buffer
		slog.New(slog.NewTextHandler(&buf, nil)).Info("x", "err", err, "client", w.client, "record", record)
		assert.Contains(t, buf.String(), "err.reason=not_connected")
		assert.Contains(t, buf.String(), "record.token.owner_id=prac-1")
		_, err = oauth.New(oauth.Config{})
		require.Error(t, err)
		require.NotErrorIs(t, err, api.ErrReauthorize)
	})
}
