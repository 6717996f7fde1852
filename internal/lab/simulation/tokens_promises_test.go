package simulation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/internal/lab/schedule"
	"github.com/dispensary-go/dispensary/oauth/tokens"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// connectAgain authorizes the first user again if its authorization was really lost. Other users do
// not authorize again.
func (w *tokenWorld) connectAgain(p *schedule.Process, user string) {
	call := schedule.Spec{Name: user + " authorizes again"}
	_, _ = schedule.Do(p.Context(), p, call, func() (nothing, error) {
		if user != w.users[0] || !w.revoked[user] && !w.lost(user) {
			return nothing{}, nil
		}
		w.authorize(user)
		w.mu.Lock()
		defer w.mu.Unlock()
		maps.DeleteFunc(w.verdicts, func(at string, _ error) bool { return strings.Contains(at, user) })
		return nothing{}, nil
	})
}

// outcome checks the error of a call.
func (w *tokenWorld) outcome(user string, err error) {
	var mark *tokens.ReauthorizeError
	if errors.As(err, &mark) && mark.Reason != tokenstore.ReasonInvalidGrant {
		w.s.Failf("%s must authorize again although the platform has not rejected the refresh token: %s", user, mark.Reason)
	}
}

// refreshed is called after the platform's response to a refresh.
func (w *tokenWorld) refreshed(old, access, refresh string) {
	user := w.owner[old]
	if w.asked[user]++; w.asked[user] > 1 {
		w.extra++
		if w.extra > 3*w.s.Disturbed() {
			w.s.Failf("%s is refreshed twice per expiry, with %s, without a fault", user, short(old))
		}
	}
	if access == "" {
		w.refused[old] = true
		return
	}
	w.know(access, refresh, user, w.consent[old])
	w.onTheWay[refresh] = nil
}

// lost reports whether the pair of a user may be lost permanently. This happens if the platform
// invalidates the old refresh token immediately, and if the response with the new pair is lost or
// its replica is killed.
func (w *tokenWorld) lost(user string) bool {
	if w.rotation != behavior.RefreshRotationImmediate {
		return false
	}
	record, err := w.record(user)
	if err != nil {
		return false
	}
	now := w.consent[record.Token.RefreshToken.Reveal()]
	for refresh, holder := range w.onTheWay {
		if w.owner[refresh] == user && w.consent[refresh] == now && (holder == nil || !holder.Alive()) {
			return true
		}
	}
	return false
}

// used is called after the API's response to a call with an access token.
func (w *tokenWorld) used(access string, _ int) {
	if _, ok := w.stored[access]; !ok {
		w.s.Failf("%s is used before it is stored", short(access))
	}
}

// write runs a call to the database and compares the record before and after it.
func (w *tokenWorld) write(op string, key tokenstore.Key, work func() error) error {
	if key.User == "" || op == "Load" || op == "Lease" || op == "Release" {
		return work()
	}
	before, beforeErr := w.view.Load(context.Background(), key)
	if err := work(); err != nil {
		return err
	}
	after, err := w.view.Load(context.Background(), key)
	if err != nil {
		if errors.Is(err, tokenstore.ErrNoRecord) {
			return nil // no user is disconnected in this world
		}
		w.s.Failf("%s of %s has stored a record that cannot be decrypted: %w", op, key.User, err)
		return nil
	}
	w.compare(op, key.User, before, beforeErr, after)
	return nil
}

func (w *tokenWorld) compare(op, user string, before tokenstore.Record, beforeErr error, after tokenstore.Record) {
	access, refresh := after.Token.AccessToken.Reveal(), after.Token.RefreshToken.Reveal()
	w.stored[access] = w.consent[access]
	delete(w.onTheWay, refresh)
	w.asked[user] = 0
	switch {
	case w.owner[access] != user || w.owner[refresh] != user || w.consent[access] != w.consent[refresh]:
		w.s.Failf("%s has stored %s and %s of %s and %s for %s", op, short(access), short(refresh), w.owner[access], w.owner[refresh], user)
	case beforeErr != nil:
	case op == "Commit" && w.consent[access] < w.consent[before.Token.AccessToken.Reveal()]:
		w.s.Failf("Commit stores %s of an older consent instead of %s", short(access), short(before.Token.AccessToken.Reveal()))
	case op == "Commit" && w.platform.good(before.Token.RefreshToken.Reveal()) && !w.platform.good(refresh):
		w.s.Failf("Commit stores the invalid %s instead of the valid %s", short(refresh), short(before.Token.RefreshToken.Reveal()))
	case op == "Fail" && after.Reason == tokenstore.ReasonInvalidGrant && !w.refused[refresh]:
		w.s.Failf("%s is marked although the platform has not rejected %s", user, short(refresh))
	}
}

// promises adds the final invariants for the given number of replicas.
func (w *tokenWorld) promises(replicas int) {
	w.s.SettledWhen("every user has a result from every replica", func() bool {
		done := 0
		for at := range w.verdicts {
			if len(at) > 5 && at[len(at)-5:] == " done" {
				done++
			}
		}
		return done == len(w.users)*replicas
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
				return fmt.Errorf("%s has no token although it was not revoked (%s, with %s valid: %t): %w", at, w.rotation, short(refresh), w.platform.good(refresh), err)
			}
		}
		return nil
	})
}
