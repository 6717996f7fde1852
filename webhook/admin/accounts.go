package admin

import (
	"context"
	"html/template"
	"net/http"
	"strconv"
	"time"

	"github.com/dispensary-go/dispensary/oauth/accounts"
)

// accountsView is the page of accounts.
type accountsView struct {
	Looked      int                // accounts read
	Partial     bool               // not all accounts were read
	By          map[string]int     // by status
	Reauthorize []accounts.Account // one page of accounts
	Previous    template.URL       // empty on the first page
	Next        template.URL       // empty on the last page
	Pending     int
	Paused      bool
	PausedUntil time.Time
}

// accountsTime is the longest time to read accounts.
const accountsTime = 5 * time.Second

// accounts shows the users who must authorize again. It reads all accounts in the available
// time, because the store does not mark a token that has just lost a scope.
func (h *Handler) accounts(w http.ResponseWriter, r *http.Request) {
	v := accountsView{By: map[string]int{}, Pending: h.config.Accounts.PendingCommits()}
	v.PausedUntil, v.Paused = h.config.Accounts.Paused()
	page, _ := strconv.Atoi(r.URL.Query().Get("page"))
	first := perPage * max(0, page-1)
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
		if at := v.By[string(accounts.StatusMustReauthorize)] - 1; account.Status == accounts.StatusMustReauthorize && at >= first && at < first+perPage {
			v.Reauthorize = append(v.Reauthorize, account)
		}
	}
	if first > 0 {
		v.Previous = template.URL("accounts?page=" + strconv.Itoa(page-1))
	}
	if v.By[string(accounts.StatusMustReauthorize)] > first+perPage {
		v.Next = template.URL("accounts?page=" + strconv.Itoa(max(1, page)+1))
	}
	h.show(w, http.StatusOK, "accounts", frame{Title: "Accounts", Path: "accounts", View: v})
}
