package sqlstore_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
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
	eachDatabase(t, func(t *testing.T, d database) {
		store := d.store(t, d.migrated(t))
		unreadable, other := token(api.NewSecret("access")), token(api.NewSecret("b"))
		other.ExpiresAt = unreadable.ExpiresAt.Add(24 * time.Hour)
		_, err := store.Save(t.Context(), user17, unreadable)
		require.NoError(t, err)
		_, err = store.Save(t.Context(), user18, other)
		require.NoError(t, err)
		d.exec(t, d.open(t), map[sqlstore.Dialect]string{
			sqlstore.PostgreSQL: `UPDATE {tokens} SET details = 'x'::bytea`, sqlstore.MySQL: `UPDATE {tokens} SET details = 'x'`,
			sqlstore.SQLite: `UPDATE {tokens} SET details = CAST('x' AS BLOB)`,
		}[d.dialect]+` WHERE username = 'user-17'`)
		due := tokens.Due{
			Environment: usSandbox, Before: time.Now().AddDate(1, 0, 0), Limit: 1, Owner: "a", TTL: time.Minute,
			Retry: time.Now().AddDate(1, 0, 1),
		}
		_, err = store.ClaimDue(t.Context(), due)
		require.ErrorIs(t, err, tokens.ErrUnreadable)
		claimed, err := store.ClaimDue(t.Context(), due)
		require.NoError(t, err)
		require.Len(t, claimed, 1, "the other one is due later")
		assert.Equal(t, user18, claimed[0].Key)
		claimed, err = store.ClaimDue(t.Context(), due)
		require.NoError(t, err)
		assert.Empty(t, claimed, "the unreadable one is postponed")
		due.From, due.Before = due.Retry, due.Retry.AddDate(0, 0, 1)
		_, err = store.ClaimDue(t.Context(), due)
		require.ErrorIs(t, err, tokens.ErrUnreadable, "no lease blocks it")
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

// outage takes a database away and brings it back.
type outage struct{ begin, end func() }

// behindOutage returns the database as it is seen by a program that can lose it:
// a server behind a line that can be cut, a file whose tables can be missing.
func (d database) behindOutage(t *testing.T) (database, outage) {
	t.Helper()
	if d.dialect == sqlstore.SQLite {
		db := d.migrated(t)
		return d, outage{
			begin: func() { d.exec(t, db, "ALTER TABLE {tokens} RENAME TO away") },
			end:   func() { d.exec(t, db, "ALTER TABLE away RENAME TO {tokens}") },
		}
	}
	var target string
	if d.dialect == sqlstore.PostgreSQL {
		u, err := url.Parse(d.name)
		require.NoError(t, err)
		target = u.Host
	} else {
		_, rest, _ := strings.Cut(d.name, "@tcp(")
		target, _, _ = strings.Cut(rest, ")")
	}
	l := newLine(t, target)
	d.name = strings.Replace(d.name, target, l.listener.Addr().String(), 1)
	return d, outage{begin: l.cut, end: l.restore}
}

// line forwards connections to a server.
type line struct {
	target   string
	listener net.Listener

	mu    sync.Mutex
	dead  bool
	conns map[net.Conn]bool
}

func newLine(t *testing.T, target string) *line {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l := &line{target: target, listener: listener, conns: map[net.Conn]bool{}}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go l.forward(conn)
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		l.cut()
	})
	return l
}

func (l *line) forward(from net.Conn) {
	to, err := net.Dial("tcp", l.target)
	if err != nil || !l.keep(from, to) {
		_ = from.Close()
		return
	}
	var wg sync.WaitGroup
	for _, way := range [][2]net.Conn{{from, to}, {to, from}} {
		wg.Go(func() {
			_, _ = io.Copy(way[0], way[1])
			_, _ = way[0].Close(), way[1].Close()
		})
	}
	wg.Wait()
}

// keep notes the connections, unless the line is cut.
func (l *line) keep(conns ...net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range conns {
		if l.dead {
			_ = c.Close()
		} else {
			l.conns[c] = true
		}
	}
	return !l.dead
}

// cut drops all connections, and those that come.
func (l *line) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead = true
	for c := range l.conns {
		_ = c.Close()
	}
	clear(l.conns)
}

// restore lets new connections through again.
func (l *line) restore() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead = false
}
