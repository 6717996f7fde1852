package connect

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/tokens"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// ending is the result of connecting a user.
type ending struct {
	outcome Outcome
	record  tokenstore.Record
	err     error
}

// maxAhead is the maximum by which the clock of the starting replica may be ahead.
const maxAhead = 10 * time.Minute

// serveCallback serves the callback from the platform.
func (h *Handler) serveCallback(w http.ResponseWriter, r *http.Request) {
	result := h.newResult()
	h.finishFlow(w, r, result)
	h.finish(w, r, result)
}

// finishFlow verifies the callback and connects the user.
func (h *Handler) finishFlow(w http.ResponseWriter, r *http.Request, result *Result) {
	query := r.URL.Query()
	if !query.Has("state") {
		// A callback without a state stores no data. It may report that the user canceled.
		_, result.Err = oauth.ParseCallback(query, "")
		result.Outcome = outcomeOf(result.Err)
		return
	}
	if !h.identify(r, result) {
		return
	}
	state := query.Get("state")
	f, ok := h.keys.openState(state)
	age := time.Since(f.issued)
	switch {
	case !ok || age < -maxAhead:
		result.fail(OutcomeBadLink, oauth.ErrState)
		return
	case age > stateLifetime:
		result.fail(OutcomeBadLink, fmt.Errorf("%w: it has expired", oauth.ErrState))
		return
	}
	if !h.checkCookie(w, r, f, result) {
		return
	}
	code, err := oauth.ParseCallback(query, state)
	if err != nil {
		result.fail(outcomeOf(err), err)
		return
	}
	// Continue if the browser disconnects, because the code cannot be used again.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), connectTimeout)
	defer cancel()
	e := h.connectOnce(ctx, f, result.Key.User, code)
	result.Outcome, result.Record, result.Err = e.outcome, e.record, e.err
	if result.Outcome == OutcomeUnavailable {
		h.recognizeConnected(r.Context(), f, result)
	}
}

// connectTimeout is the timeout of an exchange, including the store.
const connectTimeout = 90 * time.Second

// connectOnce connects the user. If another request runs the same flow on any replica, it
// waits for that request, at most until ctx ends. It then returns the other outcome without
// using the code.
func (h *Handler) connectOnce(ctx context.Context, f flow, user string, code api.Secret) (e ending) {
	defer func() {
		if v := recover(); v != nil { // in a store
			e = ending{outcome: OutcomeUnavailable, err: panicked(v)}
		}
	}()
	first, ran, err := h.config.Connections.RunFlow(ctx, user, f.id(), func(ctx context.Context) string {
		e.record, e.err = h.exchange(ctx, user, code)
		e.outcome = outcomeOf(e.err)
		if e.outcome == OutcomePlatformFailed && errors.Is(e.err, api.ErrNotSent) && !errors.Is(e.err, tokens.ErrUndecided) {
			return "" // the code is unused, so another request may send it
		}
		return string(e.outcome)
	})
	_, failed := pages[Outcome(first)]
	switch {
	case ran:
		return e
	case errors.Is(err, tokenstore.ErrNoResult), err != nil && ctx.Err() != nil:
		return ending{outcome: OutcomeUnavailable, err: err}
	case err != nil:
		return ending{outcome: outcomeOf(err), err: err}
	case Outcome(first) == OutcomeConnected:
		return h.alreadyConnected(ctx, user)
	case failed:
		return ending{outcome: Outcome(first), err: fmt.Errorf("%w: %s", errDuplicate, first)}
	}
	return ending{outcome: OutcomeUnavailable, err: errDuplicate} // from another release of this library
}

// exchange connects the user. It turns a panic, such as one of Verify, into an error, so that
// the flow gets a result.
func (h *Handler) exchange(ctx context.Context, user string, code api.Secret) (record tokenstore.Record, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = panicked(v)
		}
	}()
	return h.config.Connections.Connect(ctx, user, code)
}

// alreadyConnected checks the stored token of a user whom another request has connected. The
// stored result of a flow is not encrypted, so it proves nothing.
func (h *Handler) alreadyConnected(ctx context.Context, user string) ending {
	record, err := h.config.Connections.Record(ctx, user)
	if err == nil {
		err = h.config.Connections.Usable(record)
	}
	switch {
	case err == nil:
		return ending{outcome: OutcomeConnected}
	case errors.Is(err, tokenstore.ErrNoRecord), errors.Is(err, api.ErrReauthorize):
		return ending{outcome: OutcomeBadLink, err: fmt.Errorf("%w: it was used before, and the user is no longer connected", oauth.ErrState)}
	}
	return ending{outcome: OutcomeUnavailable, err: err}
}

func (r *Result) fail(outcome Outcome, err error) { r.Outcome, r.Err = outcome, err }

// checkCookie deletes the cookie of the state and reports whether it is valid.
func (h *Handler) checkCookie(w http.ResponseWriter, r *http.Request, f flow, result *Result) bool {
	cookie, err := r.Cookie(h.cookieName(f))
	if err != nil {
		result.fail(OutcomeBadLink, fmt.Errorf("%w: the browser has no cookie for it", oauth.ErrState))
		h.recognizeConnected(r.Context(), f, result)
		return false
	}
	h.setCookie(w, h.cookieName(f), "", -1)
	returnTo, ours, same := h.keys.openCookie(f, cookie.Value, result.Key.User)
	switch {
	case !ours:
		result.fail(OutcomeBadLink, oauth.ErrState)
		return false
	case !same:
		result.fail(OutcomeBadLink, fmt.Errorf("%w: it belongs to another user", oauth.ErrState))
		return false
	}
	result.ReturnTo = returnTo
	return true
}

// recognizeConnected checks whether the user has been connected since the flow started, for
// example by a request of the same flow whose response this browser did not await.
func (h *Handler) recognizeConnected(ctx context.Context, f flow, result *Result) {
	record, err := h.config.Connections.Record(ctx, result.Key.User)
	if err == nil && record.State == tokenstore.StateActive && !record.Token.ConnectedAt.Before(f.issued) {
		result.Outcome, result.Err = OutcomeConnected, nil
	}
}

// panicked returns an error with only the type of the panic value.
func panicked(value any) error {
	return fmt.Errorf("connect: connecting a user: panic with a %T", value)
}

// maxFlowCookies is the number of cookies that a browser may keep for unfinished flows.
const maxFlowCookies = 4

func (h *Handler) cookiePrefix() string {
	if h.config.LoopbackCookies {
		return "dispensary-"
	}
	return "__Host-dispensary-"
}

// cookieName returns the name of the flow's cookie.
func (h *Handler) cookieName(f flow) string { return h.cookiePrefix() + f.cookieSuffix() }

// setCookie sets a cookie, or deletes it if maxAge is negative.
func (h *Handler) setCookie(w http.ResponseWriter, name, value string, maxAge int) {
	http.SetCookie(w, &http.Cookie{
		Name: name, Value: value, Path: "/", MaxAge: maxAge,
		Secure: !h.config.LoopbackCookies, HttpOnly: true, SameSite: http.SameSiteLaxMode,
	})
}

// dropOldestCookies deletes the cookies of abandoned flows, so that the requests of a browser
// do not become too large for a server. Browsers send older cookies first.
func (h *Handler) dropOldestCookies(w http.ResponseWriter, r *http.Request) {
	var open []string
	for _, cookie := range r.Cookies() {
		if strings.HasPrefix(cookie.Name, h.cookiePrefix()) {
			open = append(open, cookie.Name)
		}
	}
	for len(open) >= maxFlowCookies {
		h.setCookie(w, open[0], "", -1)
		open = open[1:]
	}
}

// log records the outcome. Failures on the user's side are logged at debug level, because
// operators need not act.
func (h *Handler) log(ctx context.Context, result *Result) {
	level := slog.LevelDebug
	attrs := []slog.Attr{slog.String("outcome", string(result.Outcome))}
	if result.Err != nil {
		attrs = append(attrs, slog.Any("error", result.Err))
	}
	switch result.Outcome {
	case OutcomeConnected, OutcomeCanceled:
		level = slog.LevelInfo
	case OutcomePlatformFailed, OutcomeOwnerRejected:
		level = slog.LevelWarn
	case OutcomeUnavailable, OutcomeMisconfigured:
		level = slog.LevelError
	}
	if ctx.Err() != nil && errors.Is(result.Err, ErrUserLookup) {
		level = slog.LevelDebug // the browser left
	}
	attrs = append(attrs, slog.String("environment", result.Key.Environment.String()), slog.String("user", result.Key.User))
	h.client.Logger().LogAttrs(ctx, level, "connect: flow ended", attrs...)
}
