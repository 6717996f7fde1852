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

// tokenResponse is the content of a token answer. Only the access token must be there
// and usable: a pair that the platform has granted must not be lost over the
// form of a lesser field, because the pair before it may be dead already.
type tokenResponse struct {
	accessToken, refreshToken api.Secret
	tokenType, scope          string
	lifetime                  time.Duration
	createdAt                 time.Time // zero if absent
	owner                     ResourceOwner
}

var errNoAccessToken = errors.New("no usable access token")

// UnmarshalJSON reads the object under the oauth key.
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

// sendable is true of what a header can carry. RFC 6750, section 2.1, allows
// less; anything a platform makes up beyond it is still its business.
func sendable(token string) bool {
	return token != "" && !strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' })
}

// text reads a string and turns everything else into "".
func text(raw json.RawMessage) string {
	var s string
	_ = json.Unmarshal(raw, &s)
	return s
}

// scope reads the usual string and, for tolerance, a list of strings.
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

// maxLifetime keeps an absurd expires_in from overflowing a duration.
const maxLifetime = 10 * 365 * 24 * time.Hour

// lifetime reads expires_in, a number of seconds that also occurs as a string
// (assumption). Nothing readable, and nothing above zero, means the stated two
// hours: a token that ended as it was made would be refreshed again and again.
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

// timestamp reads created_at: ISO 8601 as the API states, or unix seconds or
// milliseconds, as a number or a string (assumption).
func timestamp(raw json.RawMessage) time.Time {
	const firstMillisecond = 1e11 // as seconds that is the year 5138
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

// token turns the answer to a request sent at the given time into a token. The
// remaining life is measured between two readings of the platform's own clock,
// its creation and the answer's Date, and counted from the moment of sending:
// the local clock may be wrong, and the token never ends before it seems to.
func (a *tokenResponse) token(sent time.Time, header http.Header) Token {
	remaining := a.lifetime
	if date, ok := transport.ResponseTime(header); ok && !a.createdAt.IsZero() {
		// An age beyond the lifetime, or below zero, shows that the two
		// readings are not of one clock.
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
