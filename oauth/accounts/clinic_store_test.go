package accounts_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/accounts"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
	"github.com/dispensary-go/dispensary/seal"
)

// sealedClinics returns a fixture with an encrypting store. f.store contains the rows.
func sealedClinics(t *testing.T) *clinicsFixture {
	t.Helper()
	return newClinicsFixture(t, func(f *clinicsFixture, c *accounts.Config) {
		key, err := seal.GenerateKey("k")
		require.NoError(t, err)
		ring, err := seal.NewKeyRing(key)
		require.NoError(t, err)
		c.Tokens.Store, err = tokenstore.Sealed(c.Tokens.Store, ring)
		require.NoError(t, err)
	})
}

// tamper changes the row of a user without the key.
func (f *clinicsFixture) tamper(t *testing.T, user string, change func(*oauth.Token)) {
	t.Helper()
	key := f.conns(t).Key(user)
	row, err := f.store.Load(t.Context(), key)
	require.NoError(t, err)
	change(&row.Token)
	_, err = f.store.Save(t.Context(), key, row.Token)
	require.NoError(t, err)
}

func TestForClinicIgnoresChangedRows(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := sealedClinics(t)
		for n := range 3 {
			require.NoError(t, f.accounts.Disconnect(t.Context(), fmt.Sprint("b-", n)))
			f.tamper(t, fmt.Sprint("a-", n), func(token *oauth.Token) { token.Clinic.ID = f.clinics[1] })
		}
		f.none(t, f.clinics[1], 0)
		f.connect(t, "b-1", f.people[f.clinics[1]][1])
		for range 4 {
			assert.Equal(t, "b-1", f.forClinic(t, f.clinics[1]).User())
			time.Sleep(24 * time.Hour)
		}
	})
}

func TestForClinicIgnoresChangedDetails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := sealedClinics(t)
		account, err := f.accounts.Status(t.Context(), "a-0")
		require.NoError(t, err)
		for n := range 3 {
			f.tamper(t, fmt.Sprint("a-", n), func(token *oauth.Token) {
				token.Clinic.IntegrationID, token.Scope = "another", "everything"
			})
		}
		ids, err := f.forClinic(t, f.clinics[0]).Integrations(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []string{account.Clinic.IntegrationID}, ids)

		_, err = f.accounts.ForClinic(t.Context(), f.environment, f.clinics[0], accounts.ClinicOptions{Scopes: []string{"everything"}})
		var none *accounts.ClinicError
		require.ErrorAs(t, err, &none)
		assert.Equal(t, []int{3, 3}, []int{none.Users, none.MissingScope})
	})
}

func TestForClinicSkipsUnreadableRecords(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := sealedClinics(t)
		damage := func(token *oauth.Token) { token.AccessToken = dispensary.NewSecret(token.AccessToken.Reveal() + "A") }
		for _, user := range []string{"a-0", "a-2"} {
			f.tamper(t, user, damage)
		}
		for range 3 {
			assert.Equal(t, "a-1", f.forClinic(t, f.clinics[0]).User())
			time.Sleep(24 * time.Hour)
		}
		f.tamper(t, "a-1", damage)
		_, err := f.accounts.ForClinic(t.Context(), f.environment, f.clinics[0], accounts.ClinicOptions{})
		require.ErrorIs(t, err, tokenstore.ErrUnreadable)
	})
}

// counting counts the reads of a store.
type counting struct {
	tokenstore.Store
	lists, rows, loads atomic.Int64
}

func (s *counting) List(ctx context.Context, listing tokenstore.Listing) ([]tokenstore.Record, error) {
	s.lists.Add(1)
	records, err := s.Store.List(ctx, listing)
	s.rows.Add(int64(len(records)))
	return records, err
}

func (s *counting) Load(ctx context.Context, key tokenstore.Key) (tokenstore.Record, error) {
	s.loads.Add(1)
	return s.Store.Load(ctx, key)
}

func TestForClinicReadsFewUsers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var store *counting
		f := newClinicsFixture(t, func(f *clinicsFixture, c *accounts.Config) {
			store = &counting{Store: c.Tokens.Store}
			c.Tokens.Store = store
		})
		record, err := f.store.Load(t.Context(), f.conns(t).Key("a-0"))
		require.NoError(t, err)
		save := func(n int, scope string) {
			token := record.Token
			token.Scope = scope
			_, err := f.store.Save(t.Context(), f.conns(t).Key(fmt.Sprintf("a-%04d", n)), token)
			require.NoError(t, err)
		}
		for n := range 700 {
			save(n, "clinic:read")
		}
		f.forClinic(t, f.clinics[0])
		store.lists.Store(0)
		store.rows.Store(0)
		store.loads.Store(0)
		for range 10 {
			f.forClinic(t, f.clinics[0])
		}
		assert.EqualValues(t, 10, store.lists.Load())
		assert.LessOrEqual(t, store.rows.Load(), int64(200))
		assert.Zero(t, store.loads.Load(), "the token is in memory")

		save(650, "clinic:read orders:read")
		for n := range 3 {
			require.NoError(t, f.accounts.Disconnect(t.Context(), fmt.Sprint("a-", n)))
		}
		found, err := f.accounts.ForClinic(t.Context(), f.environment, f.clinics[0], accounts.ClinicOptions{Scopes: []string{"orders:read"}})
		require.NoError(t, err)
		assert.Equal(t, "a-0650", found.User())
	})
}

// This process still has the token of the replaced account, while another replica has
// connected the new account.
func TestForClinicUsesReplacingAccount(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newClinicsFixture(t, nil)
		for n := range 3 {
			require.NoError(t, f.accounts.Disconnect(t.Context(), fmt.Sprint("b-", n)))
		}
		client, err := f.accounts.Client(t.Context(), "a-0")
		require.NoError(t, err)
		_, err = client.Clinic.Get(t.Context()) // keeps the token of the first clinic in memory
		require.NoError(t, err)
		f.connectElsewhere(t, "a-0", f.clinics[1])
		f.forClinic(t, f.clinics[1])
	})
}
