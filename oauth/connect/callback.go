package connect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/webpage"
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

// Outcome is the result of a browser's visit to a [Handler].
type Outcome string

// The outcomes. Unless noted otherwise, no token was stored and the user can start again. If
// another request of the same flow has failed, a request reports the same outcome.
const (
	// OutcomeConnected: the token is stored. Either this request stored it, see
	// [Result.Record], or another request of the same flow on any replica: the user clicked
	// twice or went back.
	OutcomeConnected Outcome = "connected"

	// OutcomeCanceled: the user did not authorize. This is not a failure. Err matches
	// [oauth.ErrCanceled].
	OutcomeCanceled Outcome = "canceled"

	// OutcomeNotSignedIn: [Config.User] returned no user. Err is the error that it returned.
	OutcomeNotSignedIn Outcome = "not_signed_in"

	// OutcomeOtherSite: a link or a redirect of another site tried to start the flow. The
	// platform may have another account signed in in this browser, and an attacker could
	// connect it to the user. The page has a link with which the user can continue.
	OutcomeOtherSite Outcome = "other_site"

	// OutcomeBadLink: the URL cannot start or finish a flow. The return address is not
	// allowed, or Err matches one of these:
	//   - [oauth.ErrState]: the state is invalid, is older than 30 minutes or belongs to
	//     another user, or this browser has no cookie for it. The cookie is missing if the
	//     state was used, the flow started in another browser, or the browser blocks cookies.
	//   - [oauth.ErrNoCode]: the state is valid, but there is no code.
	//   - [oauth.ErrCodeRejected]: the code is older than 10 minutes or was used.
	OutcomeBadLink Outcome = "bad_link"

	// OutcomeOwnerRejected: Verify of [tokens.Config] rejected the account. The token has been
	// revoked. Err matches [tokens.ErrOwnerRejected].
	OutcomeOwnerRejected Outcome = "owner_rejected"

	// OutcomePlatformFailed: the authorization page reported an error (Err is an
	// [*oauth.CallbackError]), or the platform was unreachable or responded with an error (Err
	// is an [*api.Error] or matches [tokens.ErrUndecided]).
	OutcomePlatformFailed Outcome = "platform_failed"

	// OutcomeUnavailable: your program or its store failed. Err is one of these:
	//   - [ErrUserLookup]: the user may be signed in.
	//   - [*tokens.StoreError]: the token could not be stored and has been revoked.
	//   - [tokenstore.ErrNoResult], or the error that prevented a result: another request
	//     started to connect the user and did not finish. It may have stored a token.
	OutcomeUnavailable Outcome = "unavailable"

	// OutcomeMisconfigured: the platform rejects the application, and only its operator can
	// fix that. Err is a [*oauth.ConfigError].
	OutcomeMisconfigured Outcome = "misconfigured"
)

// ErrUserLookup is the error of a [Config.User] that could not determine the signed-in user.
// Return it, wrapped or not.
var ErrUserLookup = errors.New("connect: cannot look up the signed-in user")

// errOtherSite is the error of a flow that another site tried to start.
var errOtherSite = errors.New("connect: another site opened the connect page")

// errDuplicate is matched by [Result].Err if another request of the same flow has failed with
// the same outcome.
var errDuplicate = errors.New("connect: another request of the same flow failed")

// Result is the argument of [Config.Done]. It contains no code, no state and no secret.
type Result struct {
	// Outcome is the outcome of the visit.
	Outcome Outcome

	// Key is the user and the environment. Key.User is empty if no user is signed in.
	Key tokenstore.Key

	// Record is the record that this request has stored. It is zero if another request of the
	// flow has connected the user.
	Record tokenstore.Record

	// ReturnTo is the user's destination, a valid path of your site. It is never empty.
	ReturnTo string

	// Err is the reason of an outcome other than [OutcomeConnected].
	Err error

	startName string // relative URL that starts the flow again
	name      string // of Config
}

// outcomeOf returns the outcome for an error of [oauth.ParseCallback] or
// [tokens.Connections.Connect].
func outcomeOf(err error) Outcome {
	var store *tokens.StoreError
	var rejection *oauth.ConfigError
	switch {
	case err == nil:
		return OutcomeConnected
	case errors.Is(err, oauth.ErrCanceled):
		return OutcomeCanceled
	case errors.Is(err, oauth.ErrState), errors.Is(err, oauth.ErrNoCode), errors.Is(err, oauth.ErrCodeRejected):
		return OutcomeBadLink
	case errors.Is(err, tokens.ErrOwnerRejected):
		return OutcomeOwnerRejected
	case errors.As(err, &store):
		return OutcomeUnavailable
	case errors.As(err, &rejection):
		return OutcomeMisconfigured
	}
	return OutcomePlatformFailed
}

// requestID returns the request ID that the platform's support needs, or "".
func (r *Result) requestID() string {
	var response *api.Error
	if errors.As(r.Err, &response) && response != nil {
		return response.RequestID
	}
	return ""
}

// pageText is the content and the status of a default page. again adds a link that starts the
// flow again.
type pageText struct {
	status      int
	title, text string
	again       bool
}

// pages contains a page for each outcome except success.
var pages = map[Outcome]pageText{
	OutcomeCanceled:       {http.StatusOK, "Not connected", "You did not authorize the connection, so nothing has changed.", true},
	OutcomeNotSignedIn:    {http.StatusUnauthorized, "Please sign in", "You are not signed in. Sign in, then connect again.", false},
	OutcomeOtherSite:      {http.StatusForbidden, "Connect your dispensary account?", "Another website opened this page. Continue only if you want to connect your dispensary account.", true},
	OutcomeBadLink:        {http.StatusBadRequest, "This link does not work", "The link is incomplete, has expired, was already used or was made for another user or browser, or your browser blocks cookies. Nothing was connected.", true},
	OutcomeOwnerRejected:  {http.StatusForbidden, "Wrong account", "The dispensary account that you chose cannot be connected here. Please use another one.", true},
	OutcomePlatformFailed: {http.StatusBadGateway, "Not connected", "The dispensary cannot be reached or reported an error.", true},
	OutcomeUnavailable:    {http.StatusServiceUnavailable, "Not confirmed", "Something went wrong on our side, so we do not know whether connecting worked. Please try again.", true},
	OutcomeMisconfigured:  {http.StatusInternalServerError, "Not connected", "The connection to the dispensary is not set up correctly. Please contact support.", false},
}

// neutralName is the heading if [Config].Name is empty.
const neutralName = "Dispensary connection"

// DefaultPage writes the response of a [Handler] without a Done hook. It redirects a connected
// user to ReturnTo with status 303. Any other user gets a page in English with the name of
// [Config], the result and the possible next steps. DefaultPage replaces the
// Content-Security-Policy: its only style sheet is inline and allowed by its digest.
func DefaultPage(w http.ResponseWriter, result *Result) {
	if result.Outcome == OutcomeConnected {
		w.Header().Set("Location", result.ReturnTo)
		w.WriteHeader(http.StatusSeeOther)
		return
	}
	text, known := pages[result.Outcome]
	if !known {
		text.status = http.StatusBadRequest
	}
	page := webpage.Notice{Name: cmp.Or(result.name, neutralName), Title: text.title, Text: text.text, Reference: result.requestID()}
	if text.again {
		action := "Try again"
		if result.Outcome == OutcomeOtherSite {
			action = "Connect"
		}
		page.Links = append(page.Links, webpage.Link{URL: "./" + result.startName + "?return_to=" + url.QueryEscape(result.ReturnTo), Text: action})
	}
	page.Links = append(page.Links, webpage.Link{URL: result.ReturnTo, Text: "Continue without connecting"})
	page.Write(w, text.status)
}
