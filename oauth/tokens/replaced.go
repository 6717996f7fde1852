package tokens

import (
	"context"
	"log/slog"
	"slices"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// maxReplaced is the largest number of replaced grants in a record. The oldest is revoked
// when there are more.
const maxReplaced = 8

// grantOf returns the grant of a token, to be revoked later.
func grantOf(t oauth.Token) oauth.ReplacedGrant {
	return oauth.ReplacedGrant{
		AccessToken: t.AccessToken, RefreshToken: t.RefreshToken, ExpiresAt: t.ExpiresAt,
		ResourceOwner: t.ResourceOwner, Clinic: t.Clinic,
	}
}

// tokenOf returns a replaced grant as a token that can be revoked.
func (c *Connections) tokenOf(g oauth.ReplacedGrant) oauth.Token {
	return oauth.Token{
		AccessToken: g.AccessToken, RefreshToken: g.RefreshToken, ExpiresAt: g.ExpiresAt,
		ResourceOwner: g.ResourceOwner, Clinic: g.Clinic, Environment: c.Environment(),
	}
}

// sameAccount reports whether two grants act for the same account of the platform, as far
// as is known. A grant of another account must be revoked at once: replicas that have
// it in memory act for that account. A grant of the same account must not, because
// revoking it may end the user's whole consent and so the newer grant as well
// (assumption). It stays in the record until [Connections.Disconnect].
func sameAccount(a, b oauth.ReplacedGrant) bool {
	if a.ResourceOwner != b.ResourceOwner && a.ResourceOwner != (oauth.ResourceOwner{}) && b.ResourceOwner != (oauth.ResourceOwner{}) {
		return false
	}
	return a.Clinic.ID == b.Clinic.ID || a.Clinic.ID == "" || b.Clinic.ID == ""
}

// replacing returns token with the grants that it replaces added to its list, and the
// oldest ones beyond [maxReplaced].
func replacing(token oauth.Token, grants ...oauth.ReplacedGrant) (_ oauth.Token, beyond []oauth.ReplacedGrant) {
	all := slices.Clone(token.Replaced)
	for _, g := range grants {
		same := func(other oauth.ReplacedGrant) bool {
			return g.AccessToken == other.AccessToken || (!g.RefreshToken.IsZero() && g.RefreshToken == other.RefreshToken)
		}
		if !g.AccessToken.IsZero() && !same(grantOf(token)) && !slices.ContainsFunc(all, same) {
			all = append(all, g)
		}
	}
	cut := max(0, len(all)-maxReplaced)
	token.Replaced = all[cut:]
	return token, all[:cut]
}

// otherAccounts reports whether the record of a token has grants of other accounts.
func otherAccounts(token oauth.Token) bool {
	return slices.ContainsFunc(token.Replaced, func(g oauth.ReplacedGrant) bool { return !sameAccount(g, grantOf(token)) })
}

// revokeReplaced revokes the replaced grants of other accounts, removes them from the record
// and returns the record. A grant that cannot be revoked stays for the next time.
func (c *Connections) revokeReplaced(ctx context.Context, record tokenstore.Record) tokenstore.Record {
	current := grantOf(record.Token)
	left := func(g oauth.ReplacedGrant) *oauth.ReplacedGrant {
		if sameAccount(g, current) {
			return &g
		}
		alive, err := c.revokeGrant(ctx, c.tokenOf(g))
		if err == nil {
			return nil
		}
		c.hooks.log(ctx, slog.LevelWarn, "a replaced token could not be revoked yet", record.Key, slog.Any("error", err))
		g = grantOf(alive)
		return &g
	}
	done := map[api.Secret]*oauth.ReplacedGrant{}
	for _, g := range record.Token.Replaced {
		if next := left(g); next == nil || next.AccessToken != g.AccessToken {
			done[g.AccessToken] = next
		}
	}
	if len(done) == 0 {
		return record
	}
	_, written, err := c.rewrite(ctx, record.Key, func(before tokenstore.Record) (oauth.Token, bool) {
		token := before.Token
		token.Replaced = remaining(token.Replaced, done)
		return token, before.State == tokenstore.StateActive
	})
	switch {
	case err != nil && !needsUser(err):
		c.hooks.log(ctx, slog.LevelWarn, "a revoked token could not be removed from the record", record.Key, slog.Any("error", err))
	case err == nil && written.Version != 0:
		return written
	}
	return record
}

// remaining returns the grants without those that are done, or with their successors.
func remaining(grants []oauth.ReplacedGrant, done map[api.Secret]*oauth.ReplacedGrant) (left []oauth.ReplacedGrant) {
	for _, g := range grants {
		switch next, ok := done[g.AccessToken]; {
		case !ok:
			left = append(left, g)
		case next != nil:
			left = append(left, *next)
		}
	}
	return left
}

// revokeReplacedLater starts revokeReplaced in the background if the record has grants of
// other accounts: an earlier attempt has failed.
func (c *Connections) revokeReplacedLater(ctx context.Context, record tokenstore.Record) {
	if otherAccounts(record.Token) {
		c.calls.join(ctx, callKey{key: record.Key, kind: revokeCall}, nil, func(ctx context.Context) (tokenstore.Record, error) {
			return c.revokeReplaced(ctx, record), nil
		})
	}
}
