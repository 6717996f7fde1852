package sqlstore_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/sqlstore"
	"github.com/dispensary-go/dispensary/oauth/tokens"
	"github.com/dispensary-go/dispensary/seal"
)

// connections are a replica in this process, whose database can be taken away.
func (f *fleet) connections(d database, onEvent func(context.Context, tokens.Event)) *tokens.Connections {
	f.Helper()
	ring, err := seal.ParseKeyRing(f.keys)
	require.NoError(f, err)
	inner, err := sqlstore.New(d.open(f), d.dialect, sqlstore.Config{TablePrefix: d.prefix})
	require.NoError(f, err)
	site, app := f.fake.Site(), f.fake.Application()
	site.BaseURL, site.AuthURL = f.front.URL+"/api", f.front.URL
	client, err := oauth.New(oauth.Config{
		Site: site, ClientID: app.ClientID, ClientSecret: api.Secret(app.ClientSecret), RedirectURL: app.RedirectURI,
	})
	require.NoError(f, err)
	conns, err := tokens.NewConnections(tokens.Config{
		Client: client, Store: tokens.Sealed(inner, ring), Observers: []tokens.Observer{{Event: onEvent}},
	})
	require.NoError(f, err)
	return conns
}

// call calls the platform with a token.
func (f *fleet) call(token api.AccessToken) {
	f.Helper()
	request, err := http.NewRequestWithContext(f.Context(), http.MethodGet, f.front.URL+"/api/clinic", nil)
	require.NoError(f, err)
	request.Header.Set("Authorization", "Bearer "+token.Secret.Reveal())
	response, err := f.front.Client().Do(request)
	require.NoError(f, err)
	require.NoError(f, response.Body.Close())
	require.Equal(f, http.StatusOK, response.StatusCode)
}

// requireStoreError wants a failure of the store that logs no user out.
func requireStoreError(t *testing.T, err error) {
	t.Helper()
	var failure *tokens.StoreError
	require.ErrorAs(t, err, &failure)
	require.NotErrorIs(t, err, oauth.ErrReauthorize)
}

// The platform has spent the refresh token, and the database is not
// there to take the new one.
func TestDatabaseAwayDuringSave(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, d database) {
		f := newFleet(t, d, dispensarytest.RefreshRotationImmediate, 1)
		f.expire()
		seen, outage := d.behindOutage(t)
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		problems := make(chan error, 1)
		conns := f.connections(seen, func(_ context.Context, event tokens.Event) {
			if e, ok := event.(tokens.CommitDelayed); ok {
				problems <- e.Err
				leave() // nor wait for the database
			}
		})
		f.setHook(func(_ string, when moment) {
			if when == beforeTheAnswer {
				outage.begin()
			}
		})
		_, err := conns.TokenSource(userName(0)).Token(ctx)
		require.ErrorIs(t, err, context.Canceled, "the token is not handed out")
		requireStoreError(t, <-problems)
		assert.Equal(t, 1, conns.PendingCommits(), "the pair is kept")
		outage.end()
		require.NoError(t, conns.Close(t.Context()))
		assert.Zero(t, conns.PendingCommits())
		token, err := conns.TokenSource(userName(0)).Token(t.Context())
		require.NoError(t, err)
		f.call(token)
		all, refused := f.refreshes()
		assert.Equal(t, 1, all)
		assert.Zero(t, refused)
	})
}

func TestDatabaseAwayDuringLoad(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, d database) {
		f := newFleet(t, d, dispensarytest.RefreshRotationImmediate, 1)
		f.expire()
		seen, outage := d.behindOutage(t)
		conns := f.connections(seen, nil)
		outage.begin()
		_, err := conns.TokenSource(userName(0)).Token(t.Context())
		requireStoreError(t, err)
		all, _ := f.refreshes()
		assert.Zero(t, all, "nothing is refreshed without the store")
		outage.end()
		require.Eventually(t, func() bool {
			token, err := conns.TokenSource(userName(0)).Token(t.Context())
			if err == nil {
				f.call(token)
			}
			return err == nil
		}, time.Minute, 20*time.Millisecond)
		all, refused := f.refreshes()
		assert.Equal(t, 1, all)
		assert.Zero(t, refused)
	})
}

// sealedStore is a store with its own key ring, and two users.
func sealedStore(t *testing.T, d database, keys ...seal.Key) tokens.Store {
	t.Helper()
	ring, err := seal.NewKeyRing(keys...)
	require.NoError(t, err)
	inner, err := sqlstore.New(d.migrated(t), d.dialect, sqlstore.Config{TablePrefix: d.prefix})
	require.NoError(t, err)
	return tokens.Sealed(inner, ring)
}

func sealKey(t *testing.T, id string) seal.Key {
	t.Helper()
	key, err := seal.GenerateKey(id)
	require.NoError(t, err)
	return key
}

func TestKeysRotate(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, d database) {
		old, young := sealKey(t, "2026"), sealKey(t, "2027")
		record := save(t, sealedStore(t, d, old))
		lease := tokens.Lease{Key: user17, Version: record.Version, Owner: "a"}
		_, err := sealedStore(t, d, old).Lease(t.Context(), lease, time.Minute)
		require.NoError(t, err)

		_, err = sealedStore(t, d, young).Load(t.Context(), user17)
		require.ErrorIs(t, err, tokens.ErrUnreadable)
		require.ErrorIs(t, err, seal.ErrUnknownKey)
		_, err = sealedStore(t, d, young, old).Load(t.Context(), user17)
		require.NoError(t, err, "which seals it anew")
		loaded, err := sealedStore(t, d, young).Load(t.Context(), user17)
		require.NoError(t, err)
		assert.Equal(t, record.Version, loaded.Version)
		_, err = sealedStore(t, d, young).Commit(t.Context(), lease, token("next"))
		require.NoError(t, err, "the lease was left alone")
	})
}

func TestTamperedRow(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]map[sqlstore.Dialect]string{
		"a byte more": {
			sqlstore.PostgreSQL: `access_token = access_token || 'A'::bytea`, sqlstore.MySQL: `access_token = CONCAT(access_token, 'A')`,
			sqlstore.SQLite: `access_token = CAST(access_token || 'A' AS BLOB)`,
		},
		"a token of the attacker's": {
			sqlstore.PostgreSQL: `access_token = 'planted'::bytea`, sqlstore.MySQL: `access_token = 'planted'`,
			sqlstore.SQLite: `access_token = CAST('planted' AS BLOB)`,
		},
		"the halves exchanged": {
			sqlstore.PostgreSQL: `access_token = refresh_token`, sqlstore.MySQL: `access_token = refresh_token`, sqlstore.SQLite: `access_token = refresh_token`,
		},
		"details that are none": {
			sqlstore.PostgreSQL: `details = 'x'::bytea`, sqlstore.MySQL: `details = 'x'`, sqlstore.SQLite: `details = CAST('x' AS BLOB)`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachDatabase(t, func(t *testing.T, d database) {
				store := sealedStore(t, d, sealKey(t, "2026"))
				save(t, store)
				d.exec(t, d.open(t), `UPDATE {tokens} SET `+change[d.dialect])
				_, err := store.Load(t.Context(), user17)
				require.ErrorIs(t, err, tokens.ErrUnreadable)
				require.NotErrorIs(t, err, tokens.ErrNoRecord)
				listed, err := store.(tokens.Lister).List(t.Context(), tokens.Listing{Environment: usSandbox, Limit: 9})
				require.NoError(t, err)
				require.Len(t, listed, 1, "it is listed all the same")
				save(t, store)
				_, err = store.Load(t.Context(), user17)
				require.NoError(t, err, "the user authorized again")
			})
		})
	}
}

func TestRowsSwappedBetweenUsers(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, d database) {
		store, db := sealedStore(t, d, sealKey(t, "2026")), d.open(t)
		save(t, store)
		_, err := store.Save(t.Context(), user18, token("of another"))
		require.NoError(t, err)
		for _, step := range []string{"'swap' WHERE username = 'user-17'", "'user-17' WHERE username = 'user-18'", "'user-18' WHERE username = 'swap'"} {
			d.exec(t, db, `UPDATE {tokens} SET username = `+step)
		}
		for _, key := range []tokens.Key{user17, user18} {
			_, err = store.Load(t.Context(), key)
			require.ErrorIs(t, err, tokens.ErrUnreadable)
			require.ErrorIs(t, err, seal.ErrTampered)
		}
		d.exec(t, db, `UPDATE {tokens} SET environment = 'us/production'`)
		_, err = store.Load(t.Context(), tokens.Key{Environment: api.Environment{Region: api.US, Stage: api.Production}, User: "user-18"})
		require.ErrorIs(t, err, seal.ErrTampered)
	})
}

// A row that cannot be read is not in the way of the others that are due.
func TestClaimPassesOverWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, d database) {
		store := d.store(t, d.migrated(t))
		save(t, store)
		_, err := store.Save(t.Context(), user18, token("b"))
		require.NoError(t, err)
		d.exec(t, d.open(t), map[sqlstore.Dialect]string{
			sqlstore.PostgreSQL: `UPDATE {tokens} SET details = 'x'::bytea`, sqlstore.MySQL: `UPDATE {tokens} SET details = 'x'`,
			sqlstore.SQLite: `UPDATE {tokens} SET details = CAST('x' AS BLOB)`,
		}[d.dialect]+` WHERE username = 'user-17'`)
		claimed, err := store.ClaimDue(t.Context(), tokens.Due{
			Environment: usSandbox, Before: time.Now().AddDate(1, 0, 0), Limit: 9, Owner: "a", TTL: time.Minute,
		})
		require.NoError(t, err)
		require.Len(t, claimed, 1)
		assert.Equal(t, user18, claimed[0].Key)
	})
}
