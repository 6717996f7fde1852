package tokens

import (
	"context"
	"errors"
	"log/slog"

	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/internal/ids"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// SetClinic records which clinic a user belongs to now: for programs that learn, from
// GET /clinic, that the user has moved. The token stays as it is. A user who has to
// authorize again keeps the clinic of before; connecting finds the new one.
//
// Errors: a [*ReauthorizeError] with [tokenstore.ReasonNotConnected]; an [*api.ArgumentError] for an
// id that no key could hold; [*StoreError]; [tokenstore.ErrLeased] if another owner kept the lease
// for longer than leases last; the error of ctx.
func (c *Connections) SetClinic(ctx context.Context, user string, clinic oauth.Clinic) error {
	key := c.Key(user)
	if err := errors.Join(key.Validate(), ids.ValidateClinic(clinic)); err != nil {
		return err
	}
	_, _, err := c.rewrite(ctx, key, func(before tokenstore.Record) (oauth.Token, bool) {
		token := before.Token
		token.Clinic = clinic
		return token, before.State == tokenstore.StateActive && before.Token.Clinic != clinic
	})
	return err
}

// findClinic asks for the clinic of a token; zero where it is not to be had.
func (c *Connections) findClinic(ctx context.Context, key tokenstore.Key, token oauth.Token) oauth.Clinic {
	if c.config.Clinic == nil {
		return oauth.Clinic{}
	}
	ctx, cancel := c.withAnswerTimeout(ctx)
	defer cancel()
	clinic, err := c.config.Clinic(ctx, key, token.Access())
	if err == nil {
		err = ids.ValidateClinic(clinic)
	}
	if err != nil {
		c.hooks.log(ctx, slog.LevelWarn, "the clinic of a user could not be found out", key, slog.Any("error", err))
		return oauth.Clinic{}
	}
	return clinic
}

// learnClinic finds out the clinic of a user whose record has none, after a refresh.
// Only [Connections.Close] waits for it.
func (c *Connections) learnClinic(ctx context.Context, record tokenstore.Record) {
	if c.config.Clinic == nil || record.Token.Clinic != (oauth.Clinic{}) {
		return
	}
	c.calls.join(ctx, callKey{key: record.Key, kind: clinicCall}, nil, func(ctx context.Context) (tokenstore.Record, error) {
		clinic := c.findClinic(ctx, record.Key, record.Token)
		if clinic == (oauth.Clinic{}) {
			return tokenstore.Record{}, nil
		}
		err := c.SetClinic(ctx, record.Key.User, clinic)
		if err != nil {
			c.hooks.log(ctx, slog.LevelWarn, "the clinic of a user could not be stored", record.Key, slog.Any("error", err))
		}
		return tokenstore.Record{}, err
	})
}
