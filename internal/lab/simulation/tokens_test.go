package simulation

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/internal/lab/schedule"
	"github.com/dispensary-go/dispensary/internal/testkit/logtest"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/accounts"
	"github.com/dispensary-go/dispensary/oauth/tokens"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
	"github.com/dispensary-go/dispensary/seal"
)

// TestTokens checks the guarantees of package tokens for users of several replicas.
func TestTokens(t *testing.T) { explore(t, newTokenWorld, 4000, 100_000) }

// tokenWorld is a platform and a database in which replicas store the tokens of its users.
type tokenWorld struct {
	s        *schedule.Scheduler
	platform *platform
	db       *database
	view     tokenstore.Store // decrypted view of the database
	rotation behavior.Variant
	keys     []seal.Key // keys of the encrypted store, oldest first; empty without encryption
	users    []string
	site     dispensary.Site
	name     string        // name of the database in the story
	pause    time.Duration // time between two calls of a user
	connects bool          // during the recovery the first user authorizes again if necessary

	stored   map[string]int               // consent by access token that was ever stored
	consent  map[string]int               // consent by token
	owner    map[string]string            // user by token
	refused  map[string]bool              // refresh tokens rejected by the platform
	revoked  map[string]bool              // users revoked on the platform
	asked    map[string]int               // refreshes since the last write of the user's record
	extra    int                          // refreshes beyond one per expiry
	onTheWay map[string]*schedule.Process // process that received a pair not stored yet, by refresh token; nil if none did
	mu       sync.Mutex                   // guards verdicts
	verdicts map[string]error             // results of calls during the recovery, by replica and user
	consents int
}

var rotations = []behavior.Variant{
	behavior.RefreshRotationGrace, behavior.RefreshRotationGrace,
	"refresh-rotation=none", behavior.RefreshRotationImmediate,
}

func newTokenWorld(s *schedule.Scheduler) {
	rotation := rotations[s.Rand.IntN(len(rotations))]
	w := newTokens(s, newPlatform(s, dispensarytest.WithBehavior(rotation)), rotation)
	w.age()
	keepFresh := len(w.keys) == 0 && s.Rand.IntN(3) == 0
	replicas := 2 + s.Rand.IntN(2)
	for i := range replicas {
		name := fmt.Sprintf("replica %d", i+1)
		s.Process(name, max(0, s.Rand.IntN(4)-1), s.Rand.IntN(2), func(p *schedule.Process) { w.start(p, keepFresh) })
	}
	w.actions()
	w.promises(replicas)
}

// newTokens returns a world whose users have authorized.
func newTokens(s *schedule.Scheduler, p *platform, rotation behavior.Variant) *tokenWorld {
	w := &tokenWorld{
		s: s, platform: p, site: p.Site(), rotation: rotation, name: "the database", stored: map[string]int{}, consent: map[string]int{}, owner: map[string]string{},
		refused: map[string]bool{}, revoked: map[string]bool{}, asked: map[string]int{}, verdicts: map[string]error{}, onTheWay: map[string]*schedule.Process{},
	}
	p.onRefresh, p.onUse = w.refreshed, w.used
	p.onArrival = func(p *schedule.Process, refresh string) { w.onTheWay[refresh] = p }
	w.db = &database{MemoryStore: tokenstore.NewMemoryStore(), write: w.write}
	w.view = w.db.MemoryStore
	if s.Rand.IntN(4) == 0 {
		w.keys = append(w.keys, newKey(0))
		w.view = w.open(w.db.MemoryStore)
	}
	for i := range 1 + s.Rand.IntN(2) {
		w.users = append(w.users, fmt.Sprintf("user-%d", i+1))
	}
	for _, user := range w.users {
		w.authorize(user)
	}
	return w
}

// age lets time pass, so that tokens are between fresh and expired.
func (w *tokenWorld) age() {
	time.Sleep([]time.Duration{0, 90 * time.Minute, 117 * time.Minute, 121 * time.Minute}[w.s.Rand.IntN(4)])
}

// actions adds the actions of users and the faults of the platform and the database.
func (w *tokenWorld) actions() {
	s := w.s
	user := func() string { return w.users[s.Rand.IntN(len(w.users))] }
	s.Action(w.name+" is unreachable", 1, func() bool { return !w.db.down.Load() }, func() { w.db.down.Store(true); s.Disturb() })
	s.Action(w.name+" is reachable again", 1, func() bool { return w.db.down.Load() }, func() { w.db.down.Store(false) })
	s.OnRecovery(func() { w.db.down.Store(false) })
	s.Action("the platform invalidates an access token early", 2, nil, func() {
		if record, err := w.record(user()); err == nil {
			_ = w.platform.Tokens.Expire(w.platform.realOf(record.Token.AccessToken.Reveal()))
			s.Disturb() // the token is refreshed before it expires
		}
	})
	if s.Rand.IntN(3) == 0 {
		s.Action("a user revokes the application", 1, nil, func() { w.revoke(user()); s.Disturb() }) // a mark is checked again
	}
	s.Action("a user authorizes again", 1, func() bool { return !w.db.down.Load() }, func() { w.authorize(user()); s.Disturb() }) // a refresh of the old consent may be running
	s.Action("the platform's clock jumps ahead by 3m", 1, nil, func() { w.platform.Clock.Advance(3 * time.Minute); s.Disturb() })
	if len(w.keys) > 0 {
		s.Action("another key for "+w.name+" is set in new replicas", 2, nil, func() { w.keys = append(w.keys, newKey(len(w.keys))) })
	}
}

// start starts a replica with its accounts and users.
func (w *tokenWorld) start(p *schedule.Process, keepFresh bool) {
	all := w.accounts(p, w.platform.seenBy(p))
	for _, user := range w.users {
		go w.use(p, all, user)
	}
	if keepFresh {
		go func() { _ = all.KeepFresh(p.Context(), tokens.KeepFreshPolicy{Interval: 7 * time.Minute}) }()
	}
}

// accounts returns the accounts of one replica.
func (w *tokenWorld) accounts(p *schedule.Process, transport http.RoundTripper) *accounts.Accounts {
	var store tokenstore.Store = tokenStore{p, w.db}
	if len(w.keys) > 0 {
		store = w.sealedOn(store)
	}
	logger := logtest.NewLogger(&w.platform.logs)
	all, err := accounts.New(accounts.Config{
		Applications: []oauth.Config{w.application(transport)},
		Tokens:       tokens.Config{Store: store},
		Options: func(dispensary.Environment) []dispensary.Option {
			return []dispensary.Option{dispensary.WithTransport(transport), dispensary.WithLogger(logger)}
		},
	})
	if err != nil {
		panic(err)
	}
	return all
}

// use calls the API repeatedly as a user.
func (w *tokenWorld) use(p *schedule.Process, all *accounts.Accounts, user string) {
	for {
		p.Step(user + " comes")
		recovering, late := w.s.Recovering() > 0, w.s.Recovering() > 10*time.Minute
		ctx, cancel := context.WithTimeout(p.Context(), 50*time.Second)
		client, err := all.Client(ctx, user)
		if err == nil {
			_, err = client.Clinic.Get(ctx)
		}
		cancel()
		if !p.Alive() {
			return
		}
		w.mu.Lock()
		w.outcome(user, err)
		if recovering {
			at := p.Name + " " + user
			// A replica with a pending commit may still revert a mark.
			if w.verdicts[at] = err; all.PendingCommits() == 0 && (err == nil || late && errors.Is(err, api.ErrReauthorize)) {
				w.verdicts[at+" done"] = nil
			}
		}
		w.mu.Unlock()
		if recovering && w.connects && errors.Is(err, api.ErrReauthorize) {
			w.connectAgain(p, user)
		}
		pause := w.pause
		if recovering {
			pause = 2 * time.Minute // longer than failures are cached
		}
		time.Sleep(pause)
	}
}
