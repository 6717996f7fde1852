package oauth

import (
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/defaults"
	"github.com/dispensary-go/dispensary/internal/jsondecode"
	"github.com/dispensary-go/dispensary/internal/transport"
)

// tokenResponse is the content of a token response. Only the access token must exist and be
// valid. The old pair may already be invalid, so a malformed optional field must not lose the
// new pair.
type tokenResponse struct {
	accessToken, refreshToken api.Secret
	tokenType, scope          string
	lifetime                  time.Duration
	createdAt                 time.Time // zero if missing
	owner                     ResourceOwner
}

var errNoAccessToken = errors.New("no usable access token")

// UnmarshalJSON decodes the object under the oauth key.
func (a *tokenResponse) UnmarshalJSON(data []byte) error {
	var wire struct {
		AccessToken   json.RawMessage `json:"access_token"`
		RefreshToken  json.RawMessage `json:"refresh_token"`
		TokenType     json.RawMessage `json:"token_type"`
		ExpiresIn     json.RawMessage `json:"expires_in"`
		Scope         json.RawMessage `json:"scope"`
		CreatedAt     json.RawMessage `json:"created_at"`
		ResourceOwner json.RawMessage `json:"resource_owner"`
	}
	if err := json.Unmarshal(data, &wire); err != nil {
		return err
	}
	*a = tokenResponse{
		accessToken:  api.NewSecret(text(wire.AccessToken)),
		refreshToken: api.NewSecret(text(wire.RefreshToken)),
		tokenType:    text(wire.TokenType),
		lifetime:     lifetime(wire.ExpiresIn),
		scope:        scope(wire.Scope),
		createdAt:    timestamp(wire.CreatedAt),
		owner:        owner(wire.ResourceOwner),
	}
	if a.tokenType == "" {
		a.tokenType = "Bearer"
	}
	if !sendable(a.accessToken.Reveal()) {
		return errNoAccessToken
	}
	return nil
}

// sendable reports whether a header can carry token. RFC 6750, section 2.1, allows fewer
// characters, but a platform may use others.
func sendable(token string) bool {
	return token != "" && !strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' })
}

// text returns a JSON string, or "" for any other value.
func text(raw json.RawMessage) string {
	var s string
	_ = json.Unmarshal(raw, &s)
	return s
}

// scope returns the usual string, and also accepts a list of strings.
func scope(raw json.RawMessage) string {
	var list []string
	if json.Unmarshal(raw, &list) == nil {
		return strings.Join(list, " ")
	}
	return text(raw)
}

func owner(raw json.RawMessage) ResourceOwner {
	var wire struct {
		ID   string `json:"id"`
		Type string `json:"type"`
	}
	_, _ = jsondecode.Unmarshal(raw, &wire)
	return ResourceOwner{ID: wire.ID, Type: wire.Type}
}

// maxLifetime prevents an overflow of a duration if expires_in is absurd.
const maxLifetime = 10 * 365 * 24 * time.Hour

// lifetime returns expires_in, a number of seconds that may also be a string (assumption). If
// it is unreadable or not above zero, the result is the documented 2 hours: a token that is
// expired from the start would be refreshed again and again.
func lifetime(raw json.RawMessage) time.Duration {
	seconds, err := strconv.ParseFloat(strings.Trim(string(raw), `" `), 64)
	if err != nil || math.IsNaN(seconds) || seconds <= 0 {
		return defaults.TokenLifetime
	}
	if seconds >= maxLifetime.Seconds() {
		return maxLifetime
	}
	return time.Duration(seconds * float64(time.Second))
}

// timestamp returns created_at. The API specifies ISO 8601. Unix seconds or milliseconds, as a
// number or a string, are accepted too (assumption).
func timestamp(raw json.RawMessage) time.Time {
	const firstMillisecond = 1e11 // as seconds, this is the year 5138
	seconds, err := strconv.ParseFloat(strings.Trim(string(raw), `" `), 64)
	if err == nil && seconds > 0 && seconds < firstMillisecond*1000 {
		if seconds >= firstMillisecond {
			seconds /= 1000
		}
		whole, fraction := math.Modf(seconds)
		return time.Unix(int64(whole), int64(fraction*1e9)).UTC()
	}
	var t api.Timestamp
	if t.UnmarshalJSON(raw) != nil {
		return time.Time{}
	}
	return t.UTC()
}

// token returns the token of a response to a request sent at the given time. The age of the
// token is the difference between two readings of the platform's own clock: its creation and
// the Date of the response. The remaining life is counted from the moment of sending. A wrong
// local clock therefore does no harm, and the token never expires before ExpiresAt.
func (a *tokenResponse) token(sent time.Time, header http.Header) Token {
	remaining := a.lifetime
	if date, ok := transport.ResponseTime(header); ok && !a.createdAt.IsZero() {
		// An age below zero or beyond the lifetime shows that the two readings come from
		// different clocks.
		if age := date.Sub(a.createdAt); age > 0 && age < a.lifetime {
			remaining -= age
		}
	}
	return Token{
		AccessToken:   a.accessToken,
		RefreshToken:  a.refreshToken,
		TokenType:     a.tokenType,
		CreatedAt:     a.createdAt,
		ExpiresAt:     sent.Add(remaining),
		Lifetime:      a.lifetime,
		Scope:         a.scope,
		ResourceOwner: a.owner,
	}
}
