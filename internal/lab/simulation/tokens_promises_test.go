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

// connectAgain is what the first user does who is told to authorize again, if that is right.
// The others leave it at that.
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

// outcome checks what a call returned.
func (w *tokenWorld) outcome(user string, err error) {
	var mark *tokens.ReauthorizeError
	if errors.As(err, &mark) && mark.Reason != tokenstore.ReasonInvalidGrant {
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

// used is called when the API has answered a call with an access token.
func (w *tokenWorld) used(access string, _ int) {
	if _, ok := w.stored[access]; !ok {
		w.s.Failf("%s is used before it is stored", short(access))
	}
}

// write is around every call of the database: it compares the record before and after.
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
			return nil // no one is disconnected here
		}
		w.s.Failf("%s of %s has left a record that cannot be opened: %w", op, key.User, err)
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
		w.s.Failf("%s has left %s and %s of %s and %s with %s", op, short(access), short(refresh), w.owner[access], w.owner[refresh], user)
	case beforeErr != nil:
	case op == "Commit" && w.consent[access] < w.consent[before.Token.AccessToken.Reveal()]:
		w.s.Failf("Commit has put %s of an older consent in the place of %s", short(access), short(before.Token.AccessToken.Reveal()))
	case op == "Commit" && w.platform.good(before.Token.RefreshToken.Reveal()) && !w.platform.good(refresh):
		w.s.Failf("Commit has put %s, which is dead, in the place of %s, which is good", short(refresh), short(before.Token.RefreshToken.Reveal()))
	case op == "Fail" && after.Reason == tokenstore.ReasonInvalidGrant && !w.refused[refresh]:
		w.s.Failf("%s is marked although the platform has not refused %s", user, short(refresh))
	}
}

// promises are what holds in the end, at so many replicas.
func (w *tokenWorld) promises(replicas int) {
	w.s.SettledWhen("every user was answered by every replica", func() bool {
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
				return fmt.Errorf("%s has no token although no one has revoked it (%s, with %s good: %t): %w", at, w.rotation, short(refresh), w.platform.good(refresh), err)
			}
		}
		return nil
	})
}
