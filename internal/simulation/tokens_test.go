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
	"github.com/dispensary-go/dispensary/accounts"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/internal/logtest"
	"github.com/dispensary-go/dispensary/internal/schedule"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/tokens"
	"github.com/dispensary-go/dispensary/seal"
)

// TestTokens holds what package tokens promises for the users of several replicas.
func TestTokens(t *testing.T) { explore(t, newTokenWorld, 10_000, 500_000) }

// tokenWorld is a database, a platform and the replicas that keep its users' tokens.
type tokenWorld struct {
	s        *schedule.Scheduler
	platform *platform
	db       *database
	view     tokens.Store // the database, opened
	rotation dispensarytest.Behavior
	keys     []seal.Key // of the sealed store, the oldest first; none where it is not sealed
	users    []string
	site     dispensary.Site

	stored   map[string]int               // names of access tokens that the database had, and of whose consent
	consent  map[string]int               // of all tokens, by name
	owner    map[string]string            // of all tokens, by name
	refused  map[string]bool              // names of refresh tokens that the platform has refused
	revoked  map[string]bool              // users who have to authorize again, by what was done at the platform
	asked    map[string]int               // refreshes since the user's record was written last
	extra    int                          // refreshes beyond one a turn
	onTheWay map[string]*schedule.Process // who was given a pair that is not stored yet, by the name of its refresh token; nil is no one
	mu       sync.Mutex                   // of verdicts
	verdicts map[string]error             // of calls after the recovery, by replica and user
	consents int
}

var rotations = []dispensarytest.Behavior{
	dispensarytest.RefreshRotationGrace, dispensarytest.RefreshRotationGrace,
	dispensarytest.RefreshRotationNone, dispensarytest.RefreshRotationImmediate,
}

func newTokenWorld(s *schedule.Scheduler) {
	w := &tokenWorld{
		s: s, rotation: rotations[s.Rand.IntN(len(rotations))], stored: map[string]int{}, consent: map[string]int{}, owner: map[string]string{},
		refused: map[string]bool{}, revoked: map[string]bool{}, asked: map[string]int{}, verdicts: map[string]error{}, onTheWay: map[string]*schedule.Process{},
	}
	w.platform = newPlatform(s, dispensarytest.WithBehavior(w.rotation))
	w.platform.onRefresh, w.platform.onUse = w.refreshed, w.used
	w.platform.onArrival = func(p *schedule.Process, refresh string) { w.onTheWay[refresh] = p }
	w.site = w.platform.Site()
	w.db = &database{MemoryStore: tokens.NewMemoryStore(), write: w.write}
	w.view = w.db.MemoryStore
	sealed := s.Rand.IntN(4) == 0
	if sealed {
		w.keys = append(w.keys, newKey(0))
		w.view = w.open(w.db.MemoryStore)
	}
	for i := range 1 + s.Rand.IntN(2) {
		w.users = append(w.users, fmt.Sprintf("user-%d", i+1))
	}
	for _, user := range w.users {
		w.authorize(user)
	}
	// From fresh tokens to those that have ended.
	time.Sleep([]time.Duration{0, 90 * time.Minute, 117 * time.Minute, 121 * time.Minute}[s.Rand.IntN(4)])
	keepFresh := !sealed && s.Rand.IntN(3) == 0
	for i := range 2 + s.Rand.IntN(2) {
		name := fmt.Sprintf("replica %d", i+1)
		s.Process(name, max(0, s.Rand.IntN(4)-1), s.Rand.IntN(2), func(p *schedule.Process) { w.start(p, keepFresh) })
	}
	w.actions(sealed)
	w.promises()
}

// actions are what people do, and what happens to the platform and the database.
func (w *tokenWorld) actions(sealed bool) {
	s := w.s
	user := func() string { return w.users[s.Rand.IntN(len(w.users))] }
	s.Action("the database is cut off", 1, func() bool { return !w.db.down }, func() { w.db.down = true; s.Disturb() })
	s.Action("the database is back", 1, func() bool { return w.db.down }, func() { w.db.down = false })
	s.OnRecovery(func() { w.db.down = false })
	s.Action("the platform ends an access token early", 2, nil, func() {
		if record, err := w.record(user()); err == nil {
			_ = w.platform.Tokens.Expire(w.platform.realOf(record.Token.AccessToken.Reveal()))
			s.Disturb() // it is refreshed before its turn
		}
	})
	if s.Rand.IntN(3) == 0 {
		s.Action("a user revokes the application", 1, nil, func() { w.revoke(user()); s.Disturb() }) // a mark is tried again
	}
	s.Action("a user authorizes anew", 1, func() bool { return !w.db.down }, func() { w.authorize(user()); s.Disturb() }) // a refresh of the old consent may be under way
	s.Action("the platform's clock jumps ahead by 3m", 1, nil, func() { w.platform.Clock().Advance(3 * time.Minute); s.Disturb() })
	if sealed {
		s.Action("a key is added to those that replicas start with", 2, nil, func() { w.keys = append(w.keys, newKey(len(w.keys))) })
	}
}

func newKey(n int) seal.Key {
	secret := make([]byte, 32)
	secret[0] = byte(n + 1)
	key, err := seal.NewKey(fmt.Sprintf("key-%d", n), secret)
	if err != nil {
		panic(err)
	}
	return key
}

// open opens the database with every key that there may be.
func (w *tokenWorld) open(inner tokens.Store) tokens.Store {
	var all []seal.Key
	for n := range 4 {
		all = append(all, newKey(n))
	}
	ring, err := seal.NewKeyRing(all...)
	if err != nil {
		panic(err)
	}
	store, err := tokens.Sealed(notResealed{inner}, ring)
	if err != nil {
		panic(err)
	}
	return store
}

// notResealed hides that a store reseals: looking must not write.
type notResealed struct{ tokens.Store }

// ring has every key that replicas can meet: an older replica can read what a newer one
// has sealed, because a key is known to all before the first one seals with it.
func (w *tokenWorld) ring() *seal.KeyRing {
	var all []seal.Key
	for n := len(w.keys); n < 4; n++ {
		all = append(all, newKey(n).Pending())
	}
	for n := len(w.keys) - 1; n >= 0; n-- {
		all = append(all, w.keys[n])
	}
	ring, err := seal.NewKeyRing(all...)
	if err != nil {
		panic(err)
	}
	return ring
}

func (w *tokenWorld) key(user string) tokens.Key {
	return tokens.Key{Environment: w.site.Environment, User: user}
}

func (w *tokenWorld) record(user string) (tokens.Record, error) {
	return w.view.Load(context.Background(), w.key(user))
}

// authorize stores a new consent, as the browser flow does at its end.
func (w *tokenWorld) authorize(user string) {
	who := w.platform.Users()[0]
	issued := w.platform.issue(who)
	w.consents++
	w.know(issued.AccessToken, issued.RefreshToken, user, w.consents)
	store := w.view
	if len(w.keys) > 0 {
		store = w.sealedOn(w.db.MemoryStore)
	}
	token := oauth.Token{
		AccessToken: api.Secret(issued.AccessToken), RefreshToken: api.Secret(issued.RefreshToken), TokenType: "Bearer",
		CreatedAt: issued.CreatedAt, ExpiresAt: issued.ExpiresAt, Lifetime: oauth.DefaultLifetime, UsedAt: time.Now(),
		ResourceOwner: oauth.ResourceOwner{ID: who.ID, Type: who.Type}, Environment: w.site.Environment,
		Clinic: oauth.Clinic{ID: who.ClinicID, IntegrationID: "in_1"},
	}
	for _, scope := range issued.Scopes {
		token.Scope += scope + " "
	}
	if err := w.write("Save", w.key(user), func() error {
		_, err := store.Save(context.Background(), w.key(user), token)
		return err
	}); err != nil {
		panic(err)
	}
	delete(w.revoked, user)
}

func (w *tokenWorld) sealedOn(inner tokens.Store) tokens.Store {
	store, err := tokens.Sealed(inner, w.ring())
	if err != nil {
		panic(err)
	}
	return store
}

func (w *tokenWorld) know(access, refresh, user string, consent int) {
	w.consent[access], w.owner[access] = consent, user
	w.consent[refresh], w.owner[refresh] = consent, user
}

// revoke ends the consent that is stored, at the platform.
func (w *tokenWorld) revoke(user string) {
	record, err := w.record(user)
	if err != nil {
		return
	}
	client, err := oauth.New(w.application(&http.Client{Transport: w.platform}))
	if err != nil {
		panic(err)
	}
	if err := client.Revoke(context.Background(), record.Token); err == nil {
		w.revoked[user] = true
	}
}

func (w *tokenWorld) application(client *http.Client) oauth.Config {
	app := w.platform.Application()
	return oauth.Config{
		Site: w.site, ClientID: app.ClientID, ClientSecret: api.Secret(app.ClientSecret), RedirectURL: app.RedirectURI,
		HTTPClient: client, Logger: logtest.NewLogger(&w.platform.logs),
	}
}

// start starts a replica: its accounts, and people who use it.
func (w *tokenWorld) start(p *schedule.Process, keepFresh bool) {
	var store tokens.Store = tokenStore{p, w.db}
	if len(w.keys) > 0 {
		store = w.sealedOn(store)
	}
	client := &http.Client{Transport: w.platform.seenBy(p)}
	logger := logtest.NewLogger(&w.platform.logs)
	all, err := accounts.New(accounts.Config{
		Applications: []oauth.Config{w.application(client)},
		Tokens:       tokens.Config{Store: store},
		Options: func(dispensary.Environment) []dispensary.Option {
			return []dispensary.Option{dispensary.WithHTTPClient(client), dispensary.WithLogger(logger)}
		},
	})
	if err != nil {
		panic(err)
	}
	for _, user := range w.users {
		go w.use(p, all, user)
	}
	if keepFresh {
		go func() { _ = all.KeepFresh(p.Context(), tokens.KeepFreshPolicy{Interval: 7 * time.Minute}) }()
	}
}

// use is a person who calls the API again and again.
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
			// A mark may still be taken back by a replica whose pair is on its way.
			if w.verdicts[at] = err; all.PendingCommits() == 0 && (err == nil || late && errors.Is(err, api.ErrReauthorize)) {
				w.verdicts[at+" done"] = nil
			}
		}
		w.mu.Unlock()
		if recovering {
			time.Sleep(2 * time.Minute) // longer than what failed is remembered
		}
	}
}

// outcome checks what a call returned.
func (w *tokenWorld) outcome(user string, err error) {
	var mark *tokens.ReauthorizeError
	if errors.As(err, &mark) && mark.Reason != tokens.ReasonInvalidGrant {
		w.s.Failf("%s must authorize again although the platform did not say so: %s", user, mark.Reason)
	}
}

// refreshed is called when the platform has answered a refresh.
func (w *tokenWorld) refreshed(old, access, refresh string) {
	user := w.owner[old]
	if w.asked[user]++; w.asked[user] > 1 {
		w.extra++
		if w.extra > 3*w.s.Disturbed() {
			w.s.Failf("%s is refreshed twice in one turn, with %s, and nothing has gone wrong", user, short(old))
		}
	}
	if access == "" {
		w.refused[old] = true
		return
	}
	w.know(access, refresh, user, w.consent[old])
	w.onTheWay[refresh] = nil
}

// lost reports that the user's pair may have been lost for good: where the old refresh
// token ends at once, an answer that never came, or came to a replica that died, is the end.
func (w *tokenWorld) lost(user string) bool {
	if w.rotation != dispensarytest.RefreshRotationImmediate {
		return false
	}
	for refresh, holder := range w.onTheWay {
		if w.owner[refresh] == user && (holder == nil || !holder.Alive()) {
			return true
		}
	}
	return false
}

// used is called when the API has answered a call with an access token.
func (w *tokenWorld) used(access string, _ int) {
	if _, ok := w.stored[access]; !ok {
		w.s.Failf("%s is used before it is stored", short(access))
	}
}

// write is around every call of the database: it compares the record before and after.
func (w *tokenWorld) write(op string, key tokens.Key, work func() error) error {
	if key.User == "" || op == "Load" || op == "Lease" || op == "Release" {
		return work()
	}
	before, beforeErr := w.view.Load(context.Background(), key)
	if err := work(); err != nil {
		return err
	}
	after, err := w.view.Load(context.Background(), key)
	if err != nil {
		if errors.Is(err, tokens.ErrNoRecord) {
			return nil // no one is disconnected here
		}
		w.s.Failf("%s of %s has left a record that cannot be opened: %w", op, key.User, err)
		return nil
	}
	w.compare(op, key.User, before, beforeErr, after)
	return nil
}

func (w *tokenWorld) compare(op, user string, before tokens.Record, beforeErr error, after tokens.Record) {
	access, refresh := after.Token.AccessToken.Reveal(), after.Token.RefreshToken.Reveal()
	w.stored[access] = w.consent[access]
	delete(w.onTheWay, refresh)
	if op == "Reseal" {
		if access != before.Token.AccessToken.Reveal() || refresh != before.Token.RefreshToken.Reveal() {
			w.s.Failf("Reseal has put %s in the place of %s", short(access), short(before.Token.AccessToken.Reveal()))
		}
		return
	}
	w.asked[user] = 0
	switch {
	case w.owner[access] != user || w.owner[refresh] != user || w.consent[access] != w.consent[refresh]:
		w.s.Failf("%s has left %s and %s of %s and %s with %s", op, short(access), short(refresh), w.owner[access], w.owner[refresh], user)
	case beforeErr != nil:
	case op == "Commit" && w.consent[access] < w.consent[before.Token.AccessToken.Reveal()]:
		w.s.Failf("Commit has put %s of an older consent in the place of %s", short(access), short(before.Token.AccessToken.Reveal()))
	case op == "Commit" && w.platform.good(before.Token.RefreshToken.Reveal()) && !w.platform.good(refresh):
		w.s.Failf("Commit has put %s, which is dead, in the place of %s, which is good", short(refresh), short(before.Token.RefreshToken.Reveal()))
	case op == "Fail" && after.Reason == tokens.ReasonInvalidGrant && !w.refused[refresh]:
		w.s.Failf("%s is marked although the platform has not refused %s", user, short(refresh))
	}
}

// promises are what holds in the end.
func (w *tokenWorld) promises() {
	w.s.SettledWhen("every user was answered by every replica", func() bool {
		done := 0
		for at := range w.verdicts {
			if len(at) > 5 && at[len(at)-5:] == " done" {
				done++
			}
		}
		return done == len(w.users)*w.s.Processes()
	})
	w.s.InTheEnd(func() error {
		for at, err := range w.verdicts {
			if err == nil {
				continue
			}
			user := at[len("replica 1 "):]
			record, loadErr := w.record(user)
			if loadErr != nil {
				return loadErr
			}
			refresh := record.Token.RefreshToken.Reveal()
			if !w.revoked[user] && !w.lost(user) {
				return fmt.Errorf("%s has no token although no one has revoked it (%s, with %s good: %t): %w", at, w.rotation, short(refresh), w.platform.good(refresh), err)
			}
		}
		return nil
	})
}
