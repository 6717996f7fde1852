package admin

import (
	"context"
	"net/http"
	"time"

	"github.com/dispensary-go/dispensary/oauth/accounts"
)

// accountsView is how users stand with the platform.
type accountsView struct {
	Looked      int                // at how many
	Partial     bool               // there are more
	By          map[string]int     // by status
	Reauthorize []accounts.Account // those who must, the first of them
	More        int
	Pending     int
	Paused      bool
	PausedUntil time.Time
}

const (
	// mostAccounts is how many accounts are shown.
	mostAccounts = 200

	// accountsTime is how long accounts are looked at.
	accountsTime = 5 * time.Second
)

// accounts shows who must authorize again. A token that has just lost a scope is not
// marked in the store, so that all are looked at, as far as time allows.
func (h *Handler) accounts(w http.ResponseWriter, r *http.Request) {
	v := accountsView{By: map[string]int{}, Pending: h.config.Accounts.PendingCommits()}
	v.PausedUntil, v.Paused = h.config.Accounts.Paused()
	ctx, cancel := context.WithTimeout(r.Context(), accountsTime)
	defer cancel()
	for account, err := range h.config.Accounts.List(ctx, accounts.ListOptions{}) {
		v.Partial = err != nil && ctx.Err() != nil
		if v.Partial {
			break
		}
		if err != nil {
			h.fail(w, err)
			return
		}
		v.Looked++
		v.By[string(account.Status)]++
		switch {
		case account.Status != accounts.StatusMustReauthorize:
		case len(v.Reauthorize) < mostAccounts:
			v.Reauthorize = append(v.Reauthorize, account)
		default:
			v.More++
		}
	}
	h.show(w, http.StatusOK, "accounts", frame{Title: "Accounts", Path: "accounts", View: v})
}
