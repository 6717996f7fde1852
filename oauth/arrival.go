package oauth

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"
)

// arrival is the connecting of a user that requests with one state share.
type arrival struct {
	done chan struct{}

	// Valid when done is closed.
	record Record
	err    error
}

// maxAhead is how far the clock of the replica that began may be ahead.
const maxAhead = 10 * time.Minute

// arrive receives the browser that comes back from the platform.
func (h *Handler) arrive(w http.ResponseWriter, r *http.Request) {
	result := h.newResult()
	h.receive(w, r, result)
	h.finish(w, r, result)
}

// receive does what the callback asks for, if everything is as it should be.
func (h *Handler) receive(w http.ResponseWriter, r *http.Request, result *Result) {
	query := r.URL.Query()
	if !query.Has("state") {
		// Nothing is done on it; only that it may be an answer of "cancelled".
		_, result.Err = ParseCallback(query, "")
		result.Outcome = outcomeOf(result.Err)
		return
	}
	if !h.identify(r, result) {
		return
	}
	state := query.Get("state")
	t, ok := h.ring.open(state)
	age := time.Since(t.issued)
	switch {
	case !ok || age < -maxAhead:
		result.fail(OutcomeWrongState, ErrState)
		return
	case age > h.config.StateLifetime:
		result.fail(OutcomeExpiredState, fmt.Errorf("%w: it has expired", ErrState))
		return
	}
	if !h.checkCookie(w, r, t, result) {
		return
	}
	code, err := ParseCallback(query, state)
	if err != nil {
		result.fail(outcomeOf(err), err)
		return
	}
	a := h.join(r.Context(), t, func(ctx context.Context) (Record, error) {
		return h.config.Client.connect(ctx, h.config.Store, result.Key.User, code, h.accept, h.config.Verify != nil)
	})
	<-a.done // ends soon whatever the platform and the store do, see connect
	result.Record, result.Err = a.record, a.err
	result.Outcome = outcomeOf(a.err)
	if result.Outcome == OutcomeCodeRefused {
		h.recognize(r.Context(), t, result)
	}
}

func (r *Result) fail(outcome Outcome, err error) { r.Outcome, r.Err = outcome, err }

// checkCookie takes the cookie of a state away from the browser and looks
// whether it is the right one.
func (h *Handler) checkCookie(w http.ResponseWriter, r *http.Request, t ticket, result *Result) bool {
	cookie, err := r.Cookie(h.cookiePrefix() + t.cookieSuffix())
	if err != nil {
		result.fail(OutcomeUsedState, fmt.Errorf("%w: this browser has no cookie for it", ErrState))
		h.recognize(r.Context(), t, result)
		return false
	}
	h.setCookie(w, t, "", -1)
	returnTo, ours, same := h.ring.match(t, cookie.Value, result.Key.User)
	switch {
	case !ours:
		result.fail(OutcomeWrongState, ErrState)
		return false
	case !same:
		result.fail(OutcomeOtherUser, fmt.Errorf("%w: it was made for another user", ErrState))
		return false
	}
	result.ReturnTo = returnTo
	return true
}

// recognize looks whether the user has been connected since the flow began: by
// the same state, in a request whose answer this browser did not wait for.
func (h *Handler) recognize(ctx context.Context, t ticket, result *Result) {
	ctx, cancel := h.config.Client.limitStore(ctx)
	defer cancel()
	record, err := h.config.Store.Load(ctx, result.Key)
	if err == nil && record.State == StateActive && !record.Token.ConnectedAt.Before(t.issued) {
		result.Outcome, result.Err = OutcomeAlreadyConnected, nil
	}
}

// accept is the verification that Connect asks for.
func (h *Handler) accept(ctx context.Context, grant Authorization) error {
	if types := h.config.OwnerTypes; len(types) > 0 && !slices.Contains(types, grant.Owner.Type) {
		return fmt.Errorf("dispensary: the account is of the type %q", grant.Owner.Type)
	}
	if h.config.Verify == nil {
		return nil
	}
	return h.config.Verify(ctx, grant)
}

// join runs work for a state, once for all who come with it at the same time. It
// goes on when they leave: the code cannot be used again.
func (h *Handler) join(ctx context.Context, t ticket, work func(context.Context) (Record, error)) *arrival {
	h.mu.Lock()
	defer h.mu.Unlock()
	if a, ok := h.flying[t.nonce]; ok {
		return a
	}
	a := &arrival{done: make(chan struct{}), err: errAbandoned}
	h.flying[t.nonce] = a
	go func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.config.Client.config.LeaseTTL+storeTime)
		defer cancel()
		defer func() {
			if v := recover(); v != nil {
				a.err = fmt.Errorf("dispensary: connecting a user: %w", panicked(v))
			}
			h.mu.Lock()
			delete(h.flying, t.nonce)
			h.mu.Unlock()
			close(a.done)
		}()
		a.record, a.err = work(ctx)
	}()
	return a
}

// maxFlowCookies bounds what the browser carries for flows that nobody ended.
const maxFlowCookies = 4

func (h *Handler) cookiePrefix() string {
	if h.config.LoopbackCookies {
		return "dispensary-"
	}
	return "__Host-dispensary-"
}

// setCookie writes the cookie of a flow, or takes it away.
func (h *Handler) setCookie(w http.ResponseWriter, t ticket, value string, maxAge int) {
	h.writeCookie(w, h.cookiePrefix()+t.cookieSuffix(), value, maxAge)
}

func (h *Handler) writeCookie(w http.ResponseWriter, name, value string, maxAge int) {
	http.SetCookie(w, &http.Cookie{
		Name: name, Value: value, Path: "/", MaxAge: maxAge,
		Secure: !h.config.LoopbackCookies, HttpOnly: true, SameSite: http.SameSiteLaxMode,
	})
}

// dropOldest keeps the cookies of flows that were begun and left from adding up
// until the browser's requests are too large for a server. Browsers send the
// older ones first.
func (h *Handler) dropOldest(w http.ResponseWriter, r *http.Request) {
	var open []string
	for _, cookie := range r.Cookies() {
		if strings.HasPrefix(cookie.Name, h.cookiePrefix()) {
			open = append(open, cookie.Name)
		}
	}
	for len(open) >= maxFlowCookies {
		h.writeCookie(w, open[0], "", -1)
		open = open[1:]
	}
}

// log tells how a visit ended. What went wrong at the user's side is not the
// operator's business.
func (h *Handler) log(ctx context.Context, result *Result) {
	level := slog.LevelDebug
	attrs := []slog.Attr{slog.String("outcome", string(result.Outcome))}
	if result.Err != nil {
		attrs = append(attrs, slog.Any("error", result.Err))
	}
	switch result.Outcome {
	case OutcomeConnected, OutcomeAlreadyConnected, OutcomeCancelled:
		level = slog.LevelInfo
	case OutcomeExchangeFailed, OutcomeCodeRefused, OutcomePageError, OutcomeOwnerRefused:
		level = slog.LevelWarn
	case OutcomeNotStored, OutcomeMisconfigured:
		level = slog.LevelError
	}
	h.config.Client.log(ctx, level, "connecting a user", result.Key, attrs...)
}
