package oauth

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/defaults"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// responseWith decodes a response with one field besides its access token.
func responseWith(t *testing.T, field, raw string) (a tokenResponse) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(`{"access_token":"a","`+field+`":`+raw+`}`), &a), raw)
	return a
}

func TestResponseAcceptsExpiresInForms(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]time.Duration{
		`7200`:     2 * time.Hour,
		`"7200"`:   2 * time.Hour,
		`7199.5`:   7199500 * time.Millisecond,
		`60`:       time.Minute,
		`null`:     defaults.TokenLifetime,
		`""`:       defaults.TokenLifetime,
		`0`:        defaults.TokenLifetime,
		`-5`:       defaults.TokenLifetime,
		`"soon"`:   defaults.TokenLifetime,
		`"NaN"`:    defaults.TokenLifetime,
		`{}`:       defaults.TokenLifetime,
		`1e300`:    maxLifetime,
		`"+Inf"`:   maxLifetime,
		`99999999`: 99999999 * time.Second,
	} {
		assert.Equal(t, want, responseWith(t, "expires_in", raw).lifetime, raw)
	}
	var a tokenResponse
	require.NoError(t, json.Unmarshal([]byte(`{"access_token":"a"}`), &a))
	assert.Equal(t, defaults.TokenLifetime, a.lifetime)
	assert.Equal(t, "Bearer", a.tokenType)
}

func TestResponseAcceptsCreatedAtForms(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	for raw, want := range map[string]time.Time{
		`"2026-03-04T12:00:00Z"`:      noon,
		`"2026-03-04T12:00:00.000Z"`:  noon,
		`"2026-03-04T07:00:00-05:00"`: noon,
		`"2026-03-04 12:00:00 UTC"`:   noon,
		`1772625600`:                  noon,
		`"1772625600"`:                noon,
		`1772625600000`:               noon,
		`1772625600.5`:                noon.Add(500 * time.Millisecond),
		`null`:                        {},
		`""`:                          {},
		`"yesterday"`:                 {},
		`{}`:                          {},
		`-1`:                          {},
		`1e300`:                       {},
	} {
		assert.True(t, want.Equal(responseWith(t, "created_at", raw).createdAt), raw)
	}
}

func TestResponseAcceptsOwnerAndScopeForms(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]ResourceOwner{
		`{"id":"p-1","type":"Practitioner"}`: {"p-1", ResourceOwnerPractitioner},
		`{"id":"c-1","type":"Clinic"}`:       {"c-1", ResourceOwnerClinic},
		`{"id":"s-1","type":"Staff"}`:        {"s-1", ResourceOwnerStaff},
		`{"id":17,"type":"Robot"}`:           {"17", "Robot"},
		`{"id":null}`:                        {},
		`null`:                               {},
		`"p-1"`:                              {},
		`[]`:                                 {},
	} {
		assert.Equal(t, want, responseWith(t, "resource_owner", raw).owner, raw)
	}
	for raw, want := range map[string]string{
		`"catalog:read clinic:read"`:  "catalog:read clinic:read",
		`["catalog:read","patients"]`: "catalog:read patients",
		`null`:                        "",
		`7`:                           "",
		`{}`:                          "",
	} {
		assert.Equal(t, want, responseWith(t, "scope", raw).scope, raw)
	}
}

func TestResponseRequiresAccessToken(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{
		`{}`, `null`, `[]`, `""`, `{"access_token":""}`, `{"access_token":null}`, `{"access_token":7}`,
		`{"access_token":"a b"}`, `{"access_token":"a\r\nX: y"}`, `{"access_token":"ä"}`,
	} {
		var a tokenResponse
		if raw == `null` { // encoding/json skips UnmarshalJSON for null; the transport reports a missing object
			continue
		}
		require.Error(t, json.Unmarshal([]byte(raw), &a), raw)
	}
}

func TestExpiryIgnoresLocalClock(t *testing.T) {
	t.Parallel()
	created := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		created time.Time
		date    string
		want    time.Duration // from the moment of sending
	}{
		"created just now":        {created, created.Format(http.TimeFormat), 2 * time.Hour},
		"created ten minutes ago": {created, created.Add(10 * time.Minute).Format(http.TimeFormat), 110 * time.Minute},
		"created in the future":   {created, created.Add(-time.Second).Format(http.TimeFormat), 2 * time.Hour},
		"different clocks":        {created, created.Add(9 * time.Hour).Format(http.TimeFormat), 2 * time.Hour},
		"no Date":                 {created, "", 2 * time.Hour},
		"invalid Date":            {created, "today", 2 * time.Hour},
		"no created_at":           {time.Time{}, created.Format(http.TimeFormat), 2 * time.Hour},
	} {
		for _, local := range []time.Time{created, created.Add(-10 * time.Minute), created.Add(10 * time.Minute), created.AddDate(-9, 0, 0)} {
			a := tokenResponse{accessToken: api.NewSecret("a"), lifetime: 2 * time.Hour, createdAt: test.created}
			token := a.token(local, http.Header{"Date": {test.date}})
			assert.Equal(t, local.Add(test.want), token.ExpiresAt, name)
			assert.Equal(t, test.created, token.CreatedAt, name)
		}
	}
}

func FuzzResponse(f *testing.F) {
	f.Add([]byte(`{"access_token":"a","refresh_token":"r","expires_in":"7200","created_at":"2026-03-04T12:00:00Z","scope":"s","resource_owner":{"id":1,"type":"Staff"}}`), "Wed, 04 Mar 2026 12:00:00 GMT")
	f.Add([]byte(`{"access_token":"a","expires_in":1e400,"created_at":-1e400}`), "")
	f.Add([]byte(`{"access_token":"a","created_at":"99999999999999","resource_owner":[]}`), "x")
	f.Fuzz(func(t *testing.T, data []byte, date string) {
		var a tokenResponse
		if json.Unmarshal(data, &a) != nil || string(data) == "null" {
			return
		}
		now := time.Now()
		token := a.token(now, http.Header{"Date": {date}})
		if a.accessToken.IsZero() {
			return // encoding/json skips UnmarshalJSON for null
		}
		left := token.ExpiresAt.Sub(now)
		if left <= 0 || left > maxLifetime || token.Lifetime < left {
			t.Fatalf("token with lifetime %s has %s left", token.Lifetime, left)
		}
		if !sendable(token.AccessToken.Reveal()) || token.TokenType == "" {
			t.Fatal("unusable token")
		}
	})
}
