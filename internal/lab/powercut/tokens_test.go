//go:build unix

package powercut_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/lab/powercut"
	"github.com/dispensary-go/dispensary/internal/testkit/receivertest"
	"github.com/dispensary-go/dispensary/internal/testkit/testsize"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/sqlstore"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
	"github.com/dispensary-go/dispensary/seal"
)

// Size of a recorded run of a token store. One goroutine per user writes its record repeatedly.
// Meanwhile the store is closed and reopened, and its write-ahead log is checkpointed.
const (
	tokenLives  = 4
	tokenUsers  = 4
	tokenWrites = 12 // per user and life
)

func tokenImages() int { return testsize.Of(1_200, 25_000) }

// written is the record of a user after a write. If responded is false, the write has not returned
// yet.
type written struct {
	user      string
	responded bool
	version   int64 // 0 without a record, or if it is not known yet
	access    api.Secret
	reason    tokenstore.Reason
}

func recorded(user string, r tokenstore.Record) written {
	return written{user, true, r.Version, r.Token.AccessToken, r.Reason}
}

type tokenRun struct {
	log  *powercut.Log
	open func(path string) (*sql.DB, error)
}

func (r *tokenRun) record(t *testing.T) {
	folder := t.TempDir()
	r.log = powercut.Record(folder)
	defer powercut.Stop(folder)
	for life := range tokenLives {
		db, err := r.open(filepath.Join(folder, "tokens.db"))
		require.NoError(t, err)
		store, err := sqlstore.Open(t.Context(), db, seal.InsecurePlaintext{})
		require.NoError(t, err)
		var writers sync.WaitGroup
		for user := range tokenUsers {
			writers.Go(func() {
				for n := range tokenWrites {
					assert.NoError(t, r.write(t.Context(), store, fmt.Sprint("user-", user), life*tokenWrites+n))
				}
			})
		}
		writers.Wait()
		_, err = db.ExecContext(t.Context(), "PRAGMA wal_checkpoint(PASSIVE)")
		require.NoError(t, err)
		require.NoError(t, db.Close())
	}
}

// write writes the record of a user. n selects the operation and is part of the token.
func (r *tokenRun) write(ctx context.Context, store tokenstore.Store, user string, n int) error {
	key := tokenstore.Key{Environment: receivertest.Sandbox, User: user}
	token := oauth.Token{
		Environment: key.Environment, RefreshToken: api.NewSecret("refresh"), ExpiresAt: time.Now().Add(time.Hour),
		AccessToken: api.NewSecret(fmt.Sprintf("%s-%d-%0500d", user, n, n)),
	}
	current, err := store.Load(ctx, key)
	if errors.Is(err, tokenstore.ErrNoRecord) || err == nil && n%7 == 3 {
		r.log.Promise(written{user: user, access: token.AccessToken})
		current, err = store.Save(ctx, key, token)
		return r.responded(user, current, err)
	}
	if err != nil {
		return err
	}
	if n%7 == 5 {
		r.log.Promise(written{user: user})
		return r.responded(user, tokenstore.Record{}, store.DeleteVersion(ctx, key, current.Version))
	}
	lease := tokenstore.Lease{Key: key, Version: current.Version, Owner: fmt.Sprint(user, n)}
	if _, err := store.Lease(ctx, lease, time.Minute); err != nil {
		return err
	}
	if n%7 == 1 {
		reason := tokenstore.Reason(fmt.Sprint("reason-", n))
		r.log.Promise(written{user: user, access: token.AccessToken, reason: reason})
		current, err = store.Fail(ctx, lease, token, reason)
		return r.responded(user, current, err)
	}
	r.log.Promise(written{user: user, access: token.AccessToken})
	current, err = store.Commit(ctx, lease, token)
	return r.responded(user, current, err)
}

func (r *tokenRun) responded(user string, now tokenstore.Record, err error) error {
	if err == nil {
		r.log.Promise(recorded(user, now))
	}
	return err
}

// check opens the store of an image and returns the broken promises.
func (r *tokenRun) check(folder string, image powercut.Image) (broken []string, err error) {
	ctx := context.Background()
	db, err := sqlstore.OpenSQLite("sqlite", filepath.Join(folder, "tokens.db"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	store, err := sqlstore.Open(ctx, db, seal.InsecurePlaintext{})
	if err != nil {
		return nil, err
	}
	var integrity string
	if err := db.QueryRow("PRAGMA integrity_check").Scan(&integrity); err != nil || integrity != "ok" {
		return []string{"integrity_check: " + integrity}, err
	}
	last, next := map[string]written{}, map[string]*written{}
	for _, p := range image.Promises {
		p := p.(written)
		if next[p.user] = &p; p.responded {
			last[p.user], next[p.user] = p, nil
		}
	}
	for n := range tokenUsers {
		user := fmt.Sprint("user-", n)
		key := tokenstore.Key{Environment: receivertest.Sandbox, User: user}
		record, err := store.Load(ctx, key)
		if err != nil && !errors.Is(err, tokenstore.ErrNoRecord) {
			return nil, err
		}
		now, was := recorded(user, record), last[user]
		was.user, was.responded = user, true
		if after := next[user]; now != was && (after == nil || now.access != after.access || now.reason != after.reason || now.version != 0 && now.version <= was.version) {
			broken = append(broken, fmt.Sprintf("%s has version %d, expected version %d or the unfinished write", user, now.version, was.version))
		}
		saved, err := store.Save(ctx, key, oauth.Token{Environment: key.Environment, AccessToken: api.NewSecret("new")})
		if err != nil {
			return nil, err
		}
		if saved.Version <= was.version {
			broken = append(broken, fmt.Sprintf("%s is saved as version %d after version %d", user, saved.Version, was.version))
		}
	}
	return broken, nil
}

func openStore(path string) (*sql.DB, error) { return sqlstore.OpenSQLite("sqlite", path) }

// TestTokens checks that the token store opens after a power cut at any moment. Each record must
// be the last written one or the result of the unfinished write.
func TestTokens(t *testing.T) {
	testsize.SkipByDay(t)
	t.Parallel()
	r := &tokenRun{open: openStore}
	r.record(t)
	result := cutAll(t, r.log, tokenImages(), r.check)
	require.Empty(t, result.broken)
	t.Log(result)
}

// TestTokensMutants checks that TestTokens finds each mistake, and logs the number of images until
// then.
func TestTokensMutants(t *testing.T) {
	testsize.SkipByDay(t)
	t.Parallel()
	for _, pragmas := range []string{
		"journal_mode(wal)&_pragma=synchronous(normal)",
		"journal_mode(wal)&_pragma=synchronous(off)",
		"journal_mode(memory)&_pragma=synchronous(full)",
		"journal_mode(off)&_pragma=synchronous(full)",
	} {
		t.Run(pragmas, func(t *testing.T) {
			t.Parallel()
			r := &tokenRun{open: func(path string) (*sql.DB, error) {
				return sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)&_pragma="+pragmas+"&_txlock=immediate")
			}}
			r.record(t)
			result := cutAll(t, r.log, tokenImages(), r.check)
			require.NotEmpty(t, result.broken, "%s", result)
			t.Logf("found in image %d: %s", result.first, result.broken[0])
		})
	}
}
