package accounts_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/accounts"
	"github.com/dispensary-go/dispensary/oauth/tokens"
)

// Users whom the platform refused by mistake are restored, all of them at once.
func TestAccountsRestore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, ctx := newFixture(t, 1), t.Context()
		users := []string{"dr-1", "dr-2", "dr-3"}
		key := tokens.Key{Environment: p.platforms[0].Site().Environment}
		for _, user := range users {
			p.connect(t, 0, user)
			key.User = user
			record, err := p.store.Load(ctx, key)
			require.NoError(t, err)
			lease := tokens.Lease{Key: key, Version: record.Version, Owner: "other"}
			_, err = p.store.Lease(ctx, lease, time.Minute)
			require.NoError(t, err)
			_, err = p.store.Fail(ctx, lease, tokens.ReasonInvalidGrant)
			require.NoError(t, err)
		}
		for account, err := range p.accounts.List(ctx, accounts.ListOptions{State: tokens.StateReauthorize}) {
			require.NoError(t, err)
			require.NoError(t, p.accounts.Restore(ctx, account.Key.User))
		}
		for _, user := range users {
			_, err := p.client(t, user).Clinic.Get(ctx)
			require.NoError(t, err)
			assert.Equal(t, accounts.Connected, p.status(t, user))
		}
		require.ErrorIs(t, p.accounts.Restore(ctx, "nobody"), dispensary.ErrReauthorize)
		require.ErrorIs(t, p.accounts.Restore(ctx, ""), dispensary.ErrInvalidArgument)
	})
}
