// Package connect is the browser flow that connects a user: mount a [Handler], and
// send users to its connect page.
//
//	handler, err := connect.New(connect.Config{
//		Connections: conns, StateKeys: keys,
//		User: func(r *http.Request) (string, error) { … }, // from your session
//	})
//	mux.Handle("/dispensary/", handler) // /dispensary/connect, /dispensary/callback
//
// Every way a visit can end has an [Outcome].
// API section: "Authentication" 3.
package connect

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/webpage"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/tokens"
)

// stateLifetime is how long a user may take: half an hour to sign up at the platform. It is a
// choice of this library.
const stateLifetime = 30 * time.Minute

// Config sets up a [Handler]. Connections, StateKeys and User are required.
type Config struct {
	// Connections connect the users. Set Verify of [tokens.Config]: without it, a user can
	// connect an account of another clinic.
	Connections *tokens.Connections

	// StateKeys sign what goes through the browser: each at least 32 random
	// bytes, the same on all replicas. The first signs, all are accepted: to
	// rotate, put a new one in front and remove the old one after
	// 30 minutes.
	StateKeys []api.Secret

	// User returns the key of the user who is signed in to the integrator's
	// own application, from its session; an error or "" if there is none. If it cannot
	// find out, for example because the database of sessions fails, it returns an error
	// that matches [ErrUserLookup]. The request it sees has no query.
	//
	// The browser comes back from another site: a session cookie with
	// SameSite=Strict is not sent then, one with Lax is.
	User func(r *http.Request) (string, error)

	// Done answers the browser when a visit has come to its end, well or not.
	// It may write what it likes, or call [DefaultPage], which the handler calls
	// where Done is nil. The request it sees has no query. The headers that
	// keep the page private are set; a page with styles or scripts has to
	// replace its Content-Security-Policy.
	Done func(w http.ResponseWriter, r *http.Request, result *Result)

	// Name is the name of your product. [DefaultPage] shows it at the top of each page and in
	// the title, as in "Not connected · Maple EHR". "" shows a neutral heading.
	Name string

	// Home is where users go who asked for no other page; "" means "/". It is
	// checked as return addresses are.
	Home string

	// StartName is the last element of the path that starts the flow; ""
	// means "connect".
	StartName string

	// LoopbackCookies is for development on http://127.0.0.1 or localhost:
	// cookies are written without the __Host- prefix and without Secure, which
	// some browsers and most test clients do not keep over plain HTTP. Without
	// the prefix another application on the same host can write the cookie, so
	// [New] refuses it unless the redirect address of the application is plain
	// HTTP, which only a loopback address may be.
	LoopbackCookies bool
}

// Handler is the whole browser flow of connecting a user, to be mounted under any
// path that ends with a slash:
//
//	mux.Handle("/dispensary/", handler)
//
// It serves two addresses and answers 404 to others, 405 to all methods but GET:
//
//   - <mount>/connect?return_to=/patients begins: it sends the browser to the
//     platform. return_to is a path of the own site and may be left out. Link to it from your own site. A browser that another site sends
//     here gets a page with a link to continue ([OutcomeOtherSite]), and one on another
//     host is redirected to the host of RedirectURL first.
//   - <mount>/callback, or what the last element of RedirectURL of [oauth.Config] is,
//     receives the browser, connects the user and sends the browser on.
//
// Stripping a prefix on the way does no harm: only the last element of the path
// is looked at.
//
// # Replicas
//
// Any replica with the same keys and the same store can finish a flow that another one
// began. A state is signed, names no user, expires, and is good only in
// the browser that has its cookie, and only while the same user is signed in
// there. The cookie is __Host-, Secure, HttpOnly and SameSite=Lax.
//
// # Used once
//
// The response to the callback deletes the cookie, and with it the state. If two requests
// with the cookie arrive at the same time, such as after a double click, the store decides
// which one exchanges the code, on one replica or on two. The other one waits for the result
// and reports [OutcomeConnected], or the same failure. If the replica with the code
// crashes, the other request reports [OutcomeUnavailable] after LeaseTTL of [tokens.Config].
//
// An exchange that has begun goes on when the browser leaves: the code cannot be
// used again.
//
// # Privacy
//
// Answers are not to be stored, send no referrer, run no script and allow no
// framing. Neither the code nor the state is logged; take care that what
// stands before the handler does not log queries.
type Handler struct {
	config   Config
	client   *oauth.Client
	keys     *stateKeys
	redirect *url.URL
	callback string // last element of the redirect address
}

// New checks config and returns a handler. Errors are [*api.ArgumentError]: they
// name the field and never repeat a value.
func New(config Config) (*Handler, error) {
	if config.Connections == nil {
		return nil, &api.ArgumentError{Field: "connect.Config.Connections", Reason: "is nil"}
	}
	config.Home = cmp.Or(config.Home, "/")
	config.StartName = cmp.Or(config.StartName, "connect")
	client := config.Connections.Client()
	redirect, _ := url.Parse(client.RedirectURL()) // checked by oauth.New
	h := &Handler{config: config, client: client, redirect: redirect, callback: lastElement(redirect.Path)}
	keys, err := newStateKeys(config.StateKeys, client.Environment(), client.ClientID())
	if err != nil {
		return nil, &api.ArgumentError{Field: "connect.Config.StateKeys", Reason: err.Error()}
	}
	h.keys, h.config.StateKeys = keys, nil
	if err := h.validate(redirect.Scheme); err != nil {
		return nil, err
	}
	return h, nil
}

// String says what the handler is and nothing of its keys.
func (h *Handler) String() string {
	return "connect.Handler{" + h.client.Environment().String() + "}"
}

// Format prints [Handler.String] for every verb.
func (h *Handler) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, h.String()) }

// validate reports the first field that cannot work.
func (h *Handler) validate(scheme string) error {
	c := &h.config
	for _, f := range []struct {
		name   string
		wrong  bool
		reason string
	}{
		{"User", c.User == nil, "is nil"},
		{"StartName", c.StartName != url.PathEscape(c.StartName) || c.StartName == h.callback, "must be one plain path element, and not that of the redirect address"},
		{"Connections", h.callback == "", "need a client with a RedirectURL whose path has a last element, such as /dispensary/callback"},
		{"Home", checkReturn(c.Home) != nil, "must be a path of this site"},
		{"LoopbackCookies", c.LoopbackCookies && scheme != "http", "is for a redirect address on loopback http only"},
	} {
		if f.wrong {
			return &api.ArgumentError{Field: "connect.Config." + f.name, Reason: f.reason}
		}
	}
	return nil
}

// lastElement returns what follows the last slash.
func lastElement(p string) string {
	if strings.HasSuffix(p, "/") || p == "" {
		return ""
	}
	return path.Base(p)
}

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	setPrivate(w.Header())
	var serve func(http.ResponseWriter, *http.Request)
	switch lastElement(r.URL.Path) {
	case h.config.StartName:
		serve = h.start
	case h.callback:
		serve = h.serveCallback
	default:
		page := webpage.Notice{Name: cmp.Or(h.config.Name, neutralName), Title: "Page not found", Text: "There is no page at this URL."}
		page.Write(w, http.StatusNotFound)
		return
	}
	if r.Method != http.MethodGet { // HEAD would use the code up
		w.Header().Set("Allow", http.MethodGet)
		http.Error(w, http.StatusText(http.StatusMethodNotAllowed), http.StatusMethodNotAllowed)
		return
	}
	serve(w, r)
}

// setPrivate sets the headers of every answer.
func setPrivate(header http.Header) {
	header.Set("Cache-Control", "no-store")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Content-Security-Policy", "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	header.Set("X-Frame-Options", "DENY")
}

// start sends the browser to the platform.
func (h *Handler) start(w http.ResponseWriter, r *http.Request) {
	result := h.newResult()
	if !h.identify(r, result) {
		h.finish(w, r, result)
		return
	}
	if asked := r.URL.Query()["return_to"]; len(asked) > 0 {
		if len(asked) > 1 || checkReturn(asked[0]) != nil {
			result.fail(OutcomeBadLink, errReturn)
			h.finish(w, r, result)
			return
		}
		result.ReturnTo = asked[0]
	}
	if h.redirectToHost(w, r, result) {
		return
	}
	if r.Header.Get("Sec-Fetch-Site") == "cross-site" {
		result.fail(OutcomeOtherSite, errOtherSite)
		h.finish(w, r, result)
		return
	}
	f := newFlow(time.Now())
	address, err := h.client.AuthorizeURL(h.keys.sealState(f))
	if err != nil { // cannot happen: a state is never empty
		http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
		return
	}
	h.dropOldestCookies(w, r)
	h.setCookie(w, h.cookieName(f), h.keys.sealCookie(f, result.Key.User, result.ReturnTo), int(stateLifetime/time.Second))
	w.Header().Set("Location", address)
	w.WriteHeader(http.StatusSeeOther)
}

// hostChecked is the parameter of a request that redirectToHost has redirected.
const hostChecked = "host_checked"

// redirectToHost sends a browser on another host, such as www.ehr.example, to the host of
// the redirect address first: the callback gets only the cookies of that host. It
// redirects once, because a proxy may replace the Host header.
func (h *Handler) redirectToHost(w http.ResponseWriter, r *http.Request, result *Result) bool {
	host := &url.URL{Host: r.Host}
	if strings.EqualFold(host.Hostname(), h.redirect.Hostname()) || r.URL.Query().Has(hostChecked) {
		return false
	}
	address := h.redirect.ResolveReference(&url.URL{Path: "./" + h.config.StartName})
	address.RawQuery = url.Values{"return_to": {result.ReturnTo}, hostChecked: {"1"}}.Encode()
	h.client.Logger().LogAttrs(r.Context(), slog.LevelWarn,
		"connect: the connect page was opened on another host than that of RedirectURL; redirecting the browser",
		slog.String("host", r.Host), slog.String("redirect_host", h.redirect.Host))
	w.Header().Set("Location", address.String())
	w.WriteHeader(http.StatusSeeOther)
	return true
}

func (h *Handler) newResult() *Result {
	return &Result{
		Key:      h.config.Connections.Key(""),
		ReturnTo: h.config.Home, startName: h.config.StartName, name: h.config.Name,
	}
}

// identify asks the integrator who is signed in.
func (h *Handler) identify(r *http.Request, result *Result) bool {
	user, err := h.config.User(withoutQuery(r))
	if err == nil {
		err = h.config.Connections.Key(user).Validate()
	}
	switch {
	case errors.Is(err, ErrUserLookup):
		result.fail(OutcomeUnavailable, err)
		return false
	case err != nil:
		result.fail(OutcomeNotSignedIn, err)
		return false
	}
	result.Key.User = user
	return true
}

// withoutQuery returns the request without what must not be logged.
func withoutQuery(r *http.Request) *http.Request {
	bare := r.Clone(r.Context())
	bare.URL.RawQuery, bare.URL.ForceQuery = "", false
	bare.RequestURI = bare.URL.EscapedPath()
	bare.Form, bare.PostForm = nil, nil
	return bare
}

// finish answers the browser.
func (h *Handler) finish(w http.ResponseWriter, r *http.Request, result *Result) {
	h.log(r.Context(), result)
	if h.config.Done == nil {
		DefaultPage(w, result)
		return
	}
	h.config.Done(w, withoutQuery(r), result)
}
