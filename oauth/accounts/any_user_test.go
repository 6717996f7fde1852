package accounts_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth/accounts"
)

// The client works as long as any user of any clinic is connected, whoever they are.
func TestAnyUserFollowsConnectedUsers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, 1)
		client, err := f.accounts.AnyUser(api.USSandbox, accounts.ClinicOptions{})
		require.NoError(t, err)
		read := func() error {
			_, err := client.Catalog.Products.List().Page(t.Context())
			return err
		}
		var none *accounts.ClinicError
		err = read()
		require.ErrorAs(t, err, &none)
		require.ErrorIs(t, err, dispensary.ErrReauthorize)
		assert.Equal(t, accounts.ClinicError{Environment: api.USSandbox}, *none)
		require.ErrorContains(t, err, "no user may call for us/sandbox: it has no connected users")

		for _, user := range []string{"first", "second"} {
			f.connect(t, 0, user)
			require.NoError(t, read())
		}
		require.NoError(t, f.accounts.Disconnect(t.Context(), "first"))
		require.NoError(t, read(), "switches to the user who is left")
		require.NoError(t, f.accounts.Disconnect(t.Context(), "second"))
		require.ErrorIs(t, read(), dispensary.ErrReauthorize)
		f.connect(t, 0, "third")
		require.NoError(t, read())

		_, err = f.accounts.AnyUser(api.CanadaSandbox, accounts.ClinicOptions{})
		require.ErrorAs(t, err, new(*api.ArgumentError))
	})
}

// A list continues as another user, also of another clinic, if its user leaves between two pages.
func TestAnyUserSwitchesDuringList(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newClinicsFixture(t, nil)
		client, err := f.accounts.AnyUser(f.environment, accounts.ClinicOptions{Scopes: []string{"catalog:read"}})
		require.NoError(t, err)
		callers := map[string]bool{}
		for _, err := range client.Catalog.Products.List().PageSize(4).Pages(t.Context()) {
			require.NoError(t, err)
			requests := f.platform.Journal.Requests("products.list")
			caller := f.userOf(requests[len(requests)-1].UserID)
			callers[caller] = true
			if len(callers) < 9 {
				f.revoke(t, caller)
				time.Sleep(time.Minute)
			}
		}
		assert.Len(t, callers, 9, "the users of all clinics")
	})
}
