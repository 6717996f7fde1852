package tokens

import (
	"cmp"
	"context"
	"errors"
	"log/slog"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/internal/ids"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// SetClinic stores the current clinic of a user. Use it if GET /clinic shows that the user has
// moved. account is the account that called GET /clinic. The token does not change. A user who
// must authorize again keeps the old clinic, and connecting finds the new one.
//
// Errors:
//
//   - [*api.AccountChangedError]: the record has another account, because the user has connected
//     it or another process has stored a clinic. Nothing was changed.
//   - [*ReauthorizeError] with [tokenstore.ReasonNotConnected]: the user is not connected.
//   - [*api.ArgumentError]: user or an id of clinic is invalid.
//   - [*StoreError]: the store failed.
//   - [tokenstore.ErrLeased]: another owner kept the lease for longer than [Config].LeaseTTL
//     and a minute.
//   - The error of ctx.
func (c *Connections) SetClinic(ctx context.Context, user string, account api.Account, clinic oauth.Clinic) error {
	key := c.Key(user)
	if err := errors.Join(key.Validate(), ids.ValidateClinic(clinic)); err != nil {
		return err
	}
	var changed error
	_, written, err := c.rewrite(ctx, key, func(_ context.Context, before tokenstore.Record) (oauth.Token, bool) {
		token := before.Token
		switch now := token.Account(); {
		case before.State != tokenstore.StateActive, token.Clinic == clinic:
			return token, false
		case now != account:
			changed = &api.AccountChangedError{Before: account, Now: now}
			return token, false
		}
		token.Clinic = clinic
		return token, true
	})
	if written.Version != 0 {
		c.users.forget(key) // the token in memory names the old clinic
	}
	return cmp.Or(err, changed)
}

// findClinic asks the platform for the clinic of a token. It returns zero if the clinic is
// unknown.
func (r *records) findClinic(ctx context.Context, key tokenstore.Key, token api.AccessToken) oauth.Clinic {
	if r.config.Clinic == nil {
		return oauth.Clinic{}
	}
	ctx, cancel := r.withResponseTimeout(ctx)
	defer cancel()
	clinic, err := r.config.Clinic(ctx, key, token)
	if err == nil {
		err = ids.ValidateClinic(clinic)
	}
	if err != nil {
		r.hooks.log(ctx, slog.LevelWarn, "could not find the clinic of a user", key, slog.Any("error", err))
		return oauth.Clinic{}
	}
	return clinic
}

// learnClinic finds the clinic of a user whose record has none, after a refresh. Only
// [Connections.Close] waits for it.
func (c *Connections) learnClinic(ctx context.Context, record tokenstore.Record) {
	if c.config.Clinic == nil || record.Token.Clinic != (oauth.Clinic{}) {
		return
	}
	c.users.join(ctx, callKey{key: record.Key, kind: clinicCall}, nil, func(ctx context.Context) (tokenstore.Record, error) {
		clinic := c.findClinic(ctx, record.Key, record.Token.Access())
		if clinic == (oauth.Clinic{}) {
			return tokenstore.Record{}, nil
		}
		err := c.SetClinic(ctx, record.Key.User, record.Token.Account(), clinic)
		if err != nil && !errors.Is(err, api.ErrAccountChanged) {
			c.hooks.log(ctx, slog.LevelWarn, "could not store the clinic of a user", record.Key, slog.Any("error", err))
		}
		return tokenstore.Record{}, err
	})
}
