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
)

// connections are a replica in this process, whose database can be taken away.
func (f *fleet) connections(d database, onEvent func(context.Context, tokens.Event)) *tokens.Connections {
	f.Helper()
	client, err := oauth.New(f.application())
	require.NoError(f, err)
	conns, err := tokens.NewConnections(tokens.Config{
		Client: client, Store: d.sealed(f, d.open(f), f.keys), Observers: []tokens.Observer{{Event: onEvent}},
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

// A row that cannot be read is an error of its own, listed all the same, replaced when
// the user authorizes again, and not in the way of the others that are due.
func TestRowThatCannotBeRead(t *testing.T) {
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
		_, err = store.Load(t.Context(), user17)
		require.ErrorIs(t, err, tokens.ErrUnreadable)
		require.NotErrorIs(t, err, tokens.ErrNoRecord)
		listed, err := store.List(t.Context(), tokens.Listing{Environment: usSandbox, Limit: 9})
		require.NoError(t, err)
		require.Len(t, listed, 2)
		save(t, store)
		_, err = store.Load(t.Context(), user17)
		require.NoError(t, err)
	})
}
