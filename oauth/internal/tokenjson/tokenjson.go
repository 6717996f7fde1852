// Package tokenjson writes a token as JSON, but for its secrets, for those who keep
// these somewhere else.
package tokenjson

import (
	"encoding/json"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth"
)

// fields are those of an [oauth.Token] besides its secrets. A field that is new needs no
// migration. Times are in microseconds; nil is zero.
type fields struct {
	TokenType       string              `json:"token_type,omitempty"`
	CreatedAt       *int64              `json:"created_at,omitempty"`
	ExpiresAt       *int64              `json:"expires_at,omitempty"`
	ConnectedAt     *int64              `json:"connected_at,omitempty"`
	UsedAt          *int64              `json:"used_at,omitempty"`
	Lifetime        time.Duration       `json:"lifetime_ns,omitempty"`
	Scope           string              `json:"scope,omitempty"`
	ConfiguredScope string              `json:"configured_scope,omitempty"`
	ResourceOwner   oauth.ResourceOwner `json:"resource_owner"`
	Clinic          oauth.Clinic        `json:"clinic,omitzero"`
	Environment     api.Environment     `json:"environment"`

	// Refreshable says that there is a refresh token, so that its removal does not go
	// unnoticed.
	Refreshable bool `json:"refreshable,omitempty"`
}

// Marshal returns the fields of a token without its secrets, in one line.
func Marshal(t oauth.Token) ([]byte, error) {
	return json.Marshal(fields{
		TokenType: t.TokenType, CreatedAt: Micros(t.CreatedAt), ExpiresAt: Micros(t.ExpiresAt), ConnectedAt: Micros(t.ConnectedAt), UsedAt: Micros(t.UsedAt),
		Lifetime: t.Lifetime, Scope: t.Scope, ConfiguredScope: t.ConfiguredScope, ResourceOwner: t.ResourceOwner,
		Clinic: t.Clinic, Environment: t.Environment, Refreshable: t.RefreshToken != "",
	})
}

// Unmarshal returns a token without its secrets, and whether it had a refresh token. The
// error may show what it read.
func Unmarshal(data []byte) (t oauth.Token, refreshable bool, err error) {
	var f fields
	err = json.Unmarshal(data, &f)
	return oauth.Token{
		TokenType: f.TokenType, CreatedAt: timeOf(f.CreatedAt), ExpiresAt: timeOf(f.ExpiresAt), ConnectedAt: timeOf(f.ConnectedAt), UsedAt: timeOf(f.UsedAt),
		Lifetime: f.Lifetime, Scope: f.Scope, ConfiguredScope: f.ConfiguredScope, ResourceOwner: f.ResourceOwner,
		Clinic: f.Clinic, Environment: f.Environment,
	}, f.Refreshable, err
}

// Micros returns the microseconds since 1970; nil for the zero time.
func Micros(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	n := t.UnixMicro()
	return &n
}

func timeOf(n *int64) time.Time {
	if n == nil {
		return time.Time{}
	}
	return time.UnixMicro(*n).UTC()
}
