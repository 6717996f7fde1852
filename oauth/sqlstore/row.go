package sqlstore

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/tokens"
)

// details are the fields of a token besides its secrets and its environment, as
// JSON in one column: a field that is new needs no migration. Times
// are in microseconds; nil is zero.
type details struct {
	TokenType       string              `json:"token_type,omitempty"`
	CreatedAt       *int64              `json:"created_at,omitempty"`
	ExpiresAt       *int64              `json:"expires_at,omitempty"`
	ConnectedAt     *int64              `json:"connected_at,omitempty"`
	UsedAt          *int64              `json:"used_at,omitempty"`
	Lifetime        time.Duration       `json:"lifetime_ns,omitempty"`
	Scope           string              `json:"scope,omitempty"`
	ConfiguredScope string              `json:"configured_scope,omitempty"`
	ResourceOwner   oauth.ResourceOwner `json:"resource_owner"`
}

// columnsOf returns the columns that hold a token.
func columnsOf(key tokens.Key, token oauth.Token) (values, error) {
	encoded, err := json.Marshal(details{
		TokenType: token.TokenType, CreatedAt: micros(token.CreatedAt), ExpiresAt: micros(token.ExpiresAt),
		ConnectedAt: micros(token.ConnectedAt), UsedAt: micros(token.UsedAt), Lifetime: token.Lifetime, Scope: token.Scope, ConfiguredScope: token.ConfiguredScope, ResourceOwner: token.ResourceOwner,
	})
	if err != nil {
		return nil, fmt.Errorf("sqlstore: encode: %w", err)
	}
	v := keyValues(key)
	v["access"], v["refresh"], v["details"] = []byte(token.AccessToken.Reveal()), []byte(token.RefreshToken.Reveal()), encoded
	v["due"], v["used"] = nil, int64(0)
	if due := micros(tokens.DueAt(token)); due != nil {
		v["due"] = *due
	}
	if used := micros(token.UsedAt); used != nil {
		v["used"] = *used
	}
	return v, nil
}

// keyValues returns the columns that hold a key.
func keyValues(key tokens.Key) values {
	return values{"environment": key.Environment.String(), "username": key.User}
}

// scanner is a row, or a result at one of its rows.
type scanner interface{ Scan(dest ...any) error }

// scan reads the columns of a record in the given environment, and what follows
// them.
func scan(s scanner, environment api.Environment, more ...any) (tokens.Record, error) {
	var access, refresh, encoded []byte
	record := tokens.Record{Key: tokens.Key{Environment: environment}}
	dest := []any{&record.Key.User, &record.Version, &record.State, &record.Reason, &access, &refresh, &encoded}
	if err := s.Scan(append(dest, more...)...); err != nil {
		return tokens.Record{}, err
	}
	err := fill(&record, encoded)
	record.Token.AccessToken, record.Token.RefreshToken = api.Secret(access), api.Secret(refresh)
	return record, err
}

// errDetails does not wrap the decoder's error, which may show what it read.
var errDetails = fmt.Errorf("%w: the column details was changed by another program", tokens.ErrUnreadable)

// fill decodes what is beside the secrets.
func fill(record *tokens.Record, encoded []byte) error {
	record.UpdatedAt = time.UnixMicro(record.Version).UTC()
	record.Token.Environment = record.Key.Environment
	var d details
	if err := json.Unmarshal(encoded, &d); err != nil {
		return errDetails
	}
	record.Token = oauth.Token{
		TokenType: d.TokenType, CreatedAt: timeOf(d.CreatedAt), ExpiresAt: timeOf(d.ExpiresAt), ConnectedAt: timeOf(d.ConnectedAt), UsedAt: timeOf(d.UsedAt),
		Lifetime: d.Lifetime, Scope: d.Scope, ConfiguredScope: d.ConfiguredScope, ResourceOwner: d.ResourceOwner,
		Environment: record.Key.Environment,
	}
	return nil
}

func micros(t time.Time) *int64 {
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
