// Package tokenjson encodes a token as JSON without its access and refresh token, for stores
// that keep these two elsewhere. The JSON does contain the secrets of replaced grants.
package tokenjson

import (
	"encoding/json"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth"
)

// fields contains the fields of an [oauth.Token] except its own secrets. A new field needs no
// migration. Times are in microseconds. Nil is the zero time.
type fields struct {
	TokenType       string              `json:"token_type,omitempty"`
	CreatedAt       *int64              `json:"created_at,omitempty"`
	ExpiresAt       *int64              `json:"expires_at,omitempty"`
	ConnectedAt     *int64              `json:"connected_at,omitempty"`
	UsedAt          *int64              `json:"used_at,omitempty"`
	RejectedAt      *int64              `json:"rejected_at,omitempty"`
	Lifetime        time.Duration       `json:"lifetime_ns,omitempty"`
	Scope           string              `json:"scope,omitempty"`
	ConfiguredScope string              `json:"configured_scope,omitempty"`
	ResourceOwner   oauth.ResourceOwner `json:"resource_owner"`
	Clinic          oauth.Clinic        `json:"clinic,omitzero"`
	Environment     api.Environment     `json:"environment"`
	Replaced        []grant             `json:"replaced,omitempty"`

	// Refreshable is true if there is a refresh token. A store can thus detect that someone
	// removed it.
	Refreshable bool `json:"refreshable,omitempty"`
}

// grant is an [oauth.ReplacedGrant] with its secrets revealed. They are encoded as bytes,
// because a secret may not be UTF-8.
type grant struct {
	Access  []byte              `json:"access"`
	Refresh []byte              `json:"refresh,omitempty"`
	Expires *int64              `json:"expires,omitempty"`
	Owner   oauth.ResourceOwner `json:"owner"`
	Clinic  oauth.Clinic        `json:"clinic,omitzero"`
}

// Marshal returns the fields of a token as one line of JSON, without its access and refresh
// token. The result contains secrets if the token has replaced grants.
func Marshal(t oauth.Token) ([]byte, error) {
	var replaced []grant
	for _, g := range t.Replaced {
		replaced = append(replaced, grant{
			[]byte(g.AccessToken.Reveal()), []byte(g.RefreshToken.Reveal()), Micros(g.ExpiresAt), g.ResourceOwner, g.Clinic,
		})
	}
	return json.Marshal(fields{
		TokenType: t.TokenType, CreatedAt: Micros(t.CreatedAt), ExpiresAt: Micros(t.ExpiresAt), ConnectedAt: Micros(t.ConnectedAt), UsedAt: Micros(t.UsedAt),
		RejectedAt: Micros(t.RejectedAt), Lifetime: t.Lifetime, Scope: t.Scope, ConfiguredScope: t.ConfiguredScope, ResourceOwner: t.ResourceOwner,
		Clinic: t.Clinic, Environment: t.Environment, Replaced: replaced, Refreshable: !t.RefreshToken.IsZero(),
	})
}

// Unmarshal returns a token without access and refresh token. refreshable reports whether the
// token had a refresh token. The error may show part of data.
func Unmarshal(data []byte) (t oauth.Token, refreshable bool, err error) {
	var f fields
	err = json.Unmarshal(data, &f)
	var replaced []oauth.ReplacedGrant
	for _, g := range f.Replaced {
		replaced = append(replaced, oauth.ReplacedGrant{
			AccessToken: api.NewSecret(string(g.Access)), RefreshToken: api.NewSecret(string(g.Refresh)), ExpiresAt: timeOf(g.Expires),
			ResourceOwner: g.Owner, Clinic: g.Clinic,
		})
	}
	return oauth.Token{
		TokenType: f.TokenType, CreatedAt: timeOf(f.CreatedAt), ExpiresAt: timeOf(f.ExpiresAt), ConnectedAt: timeOf(f.ConnectedAt), UsedAt: timeOf(f.UsedAt),
		RejectedAt: timeOf(f.RejectedAt), Lifetime: f.Lifetime, Scope: f.Scope, ConfiguredScope: f.ConfiguredScope, ResourceOwner: f.ResourceOwner,
		Clinic: f.Clinic, Environment: f.Environment, Replaced: replaced,
	}, f.Refreshable, err
}

// Micros returns the microseconds since 1970. Nil is the zero time.
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
