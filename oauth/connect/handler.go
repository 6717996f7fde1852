// Package connect serves the browser flow in which a user authorizes your program. Mount a
// [Handler] and link to its connect page:
//
//	handler, err := connect.New(connect.Config{
//		Connections: conns, StateKeys: keys,
//		User: func(r *http.Request) (string, error) { … }, // from your session
//	})
//	mux.Handle("/dispensary/", handler) // /dispensary/connect, /dispensary/callback
//
// # Usage
//
// The handler sends the browser to the platform's authorization page, receives the callback,
// exchanges the code and stores the token with a [tokens.Connections]. Package oauth/accounts
// creates the handler for one or more environments, see Accounts.Handler there.
//
// Each visit ends with an [Outcome]. [DefaultPage] redirects or shows a page for it. To show
// your own pages, set [Config.Done].
//
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

// stateLifetime is the time limit for a user, enough to sign up at the platform. The limit is
// a choice of this library.
const stateLifetime = 30 * time.Minute

// Config configures a [Handler]. Connections, StateKeys and User are required.
type Config struct {
	// Connections exchanges the code and stores the token. Set Verify of [tokens.Config].
	// Without it, a user can connect an account of another clinic.
	Connections *tokens.Connections

	// StateKeys sign the state and the cookie. Each key has at least 32 random bytes. All
	// replicas need the same keys. The first key signs and all keys verify. To rotate, insert
	// a new key in front and remove the old key after 30 minutes.
	StateKeys []api.Secret

	// User returns your ID of the signed-in user from the session of the request. It returns
	// an error or "" if no user is signed in. If the lookup itself fails, for example because
	// the session database is down, return an error that matches [ErrUserLookup]. The request
	// has no query.
	//
	// The browser returns from another site. It then sends a session cookie with SameSite=Lax,
	// but not one with SameSite=Strict.
	User func(r *http.Request) (string, error)

	// Done writes the response at the end of every visit, successful or not. It may write any
	// response or call [DefaultPage]. Nil means DefaultPage. The request has no query. The
	// headers for a private page are already set. A page with styles or scripts must replace
	// its Content-Security-Policy.
	Done func(w http.ResponseWriter, r *http.Request, result *Result)

	// Name is the name of your product. [DefaultPage] shows it at the top and in the title of
	// each page, as in "Not connected · Maple EHR". Empty shows a neutral heading.
	Name string

	// Home is the destination of users who requested no other page. Empty means "/". It must
	// be a path of your site, like return_to.
	Home string

	// StartName is the last path element of the connect page. Empty means "connect".
	StartName string

	// LoopbackCookies is for development on http://127.0.0.1 or localhost. Cookies have
	// neither the __Host- prefix nor Secure, because some browsers and most test clients drop
	// such cookies over plain HTTP. Without the prefix, another application on the same host
	// can write the cookie. [New] therefore rejects LoopbackCookies unless the redirect URL of
	// the application is plain HTTP, which only a loopback address may use.
	LoopbackCookies bool
}

// Handler serves the browser flow that connects a user. Mount it under any path that ends with
// a slash:
//
//	mux.Handle("/dispensary/", handler)
//
// It serves two URLs. It responds with 404 to other paths and with 405 to methods other than
// GET.
//
//   - <mount>/connect?return_to=/patients starts the flow and redirects the browser to the
//     platform. return_to is an optional path of your site. Link to this URL from your site. A
//     browser from another site gets a page with a link to continue ([OutcomeOtherSite]). A
//     browser on another host is first redirected to the host of RedirectURL.
//   - <mount>/callback, or the last path element of RedirectURL in [oauth.Config], receives
//     the callback, connects the user and redirects the browser to return_to.
//
// You can strip a prefix, because the handler reads only the last path element.
//
// # Replicas
//
// A replica can finish a flow that another replica started, given the same keys and store. A
// state is signed, contains no user and expires after 30 minutes. It is valid only in the
// browser that has its cookie, and only while the same user is signed in there. The cookie is
// __Host-, Secure, HttpOnly and SameSite=Lax.
//
// # Single use
//
// The response to the callback deletes the cookie, so the state becomes invalid. If two
// requests with the cookie arrive at the same time, such as after a double click, the store
// decides which of them exchanges the code, even across replicas. The other request waits for
// the result and reports [OutcomeConnected] or the same failure. If the replica with the code
// crashes, the other request reports [OutcomeUnavailable] after LeaseTTL of [tokens.Config].
//
// An exchange continues if the browser disconnects, because the code cannot be used again.
//
// # Privacy
//
// Responses must not be cached, send no referrer, run no script and allow no framing. The
// handler logs neither the code nor the state. Ensure that proxies and middleware in front of
// it do not log queries.
type Handler struct {
	config   Config
	client   *oauth.Client
	keys     *stateKeys
	redirect *url.URL
	callback string // last path element of the redirect URL
}

// New validates config and returns a handler. Errors are [*api.ArgumentError]. They name the
// field and never contain its value.
func New(config Config) (*Handler, error) {
	if config.Connections == nil {
		return nil, &api.ArgumentError{Field: "connect.Config.Connections", Reason: "is nil"}
	}
	config.Home = cmp.Or(config.Home, "/")
	config.StartName = cmp.Or(config.StartName, "connect")
	client := config.Connections.Client()
	redirect, _ := url.Parse(client.RedirectURL()) // validated by oauth.New
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

// String returns the environment and no keys.
func (h *Handler) String() string {
	return "connect.Handler{" + h.client.Environment().String() + "}"
}

// Format prints [Handler.String] for every verb.
func (h *Handler) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, h.String()) }

// validate returns an error for the first invalid field.
func (h *Handler) validate(scheme string) error {
	c := &h.config
	for _, f := range []struct {
		name   string
		wrong  bool
		reason string
	}{
		{"User", c.User == nil, "is nil"},
		{"StartName", c.StartName != url.PathEscape(c.StartName) || c.StartName == h.callback, "must be one plain path element, different from the last one of RedirectURL"},
		{"Connections", h.callback == "", "need a RedirectURL with a last path element, such as /dispensary/callback"},
		{"Home", checkReturn(c.Home) != nil, "must be a path of your site, such as /patients"},
		{"LoopbackCookies", c.LoopbackCookies && scheme != "http", "needs a RedirectURL with http on a loopback address"},
	} {
		if f.wrong {
			return &api.ArgumentError{Field: "connect.Config." + f.name, Reason: f.reason}
		}
	}
	return nil
}

// lastElement returns the text after the last slash.
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
	if r.Method != http.MethodGet { // HEAD would use up the code
		w.Header().Set("Allow", http.MethodGet)
		http.Error(w, http.StatusText(http.StatusMethodNotAllowed), http.StatusMethodNotAllowed)
		return
	}
	serve(w, r)
}

// setPrivate sets the privacy headers of every response.
func setPrivate(header http.Header) {
	header.Set("Cache-Control", "no-store")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Content-Security-Policy", "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	header.Set("X-Frame-Options", "DENY")
}

// start redirects the browser to the platform.
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
	if err != nil { // cannot happen, because the state is never empty
		http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
		return
	}
	h.dropOldestCookies(w, r)
	h.setCookie(w, h.cookieName(f), h.keys.sealCookie(f, result.Key.User, result.ReturnTo), int(stateLifetime/time.Second))
	w.Header().Set("Location", address)
	w.WriteHeader(http.StatusSeeOther)
}

// hostChecked is the query parameter that marks a request as redirected by redirectToHost.
const hostChecked = "host_checked"

// redirectToHost redirects a browser on another host, such as www.ehr.example, to the host of
// the redirect URL: the callback receives only the cookies of that host. It redirects once,
// because a proxy may replace the Host header.
func (h *Handler) redirectToHost(w http.ResponseWriter, r *http.Request, result *Result) bool {
	host := &url.URL{Host: r.Host}
	if strings.EqualFold(host.Hostname(), h.redirect.Hostname()) || r.URL.Query().Has(hostChecked) {
		return false
	}
	address := h.redirect.ResolveReference(&url.URL{Path: "./" + h.config.StartName})
	address.RawQuery = url.Values{"return_to": {result.ReturnTo}, hostChecked: {"1"}}.Encode()
	h.client.Logger().LogAttrs(r.Context(), slog.LevelWarn,
		"connect: redirecting the connect page to the host of RedirectURL",
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

// identify sets the signed-in user of the result. It reports whether there is one.
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

// withoutQuery returns the request without code and state, which must not be logged.
func withoutQuery(r *http.Request) *http.Request {
	bare := r.Clone(r.Context())
	bare.URL.RawQuery, bare.URL.ForceQuery = "", false
	bare.RequestURI = bare.URL.EscapedPath()
	bare.Form, bare.PostForm = nil, nil
	return bare
}

// finish logs the result and writes the response.
func (h *Handler) finish(w http.ResponseWriter, r *http.Request, result *Result) {
	h.log(r.Context(), result)
	if h.config.Done == nil {
		DefaultPage(w, result)
		return
	}
	h.config.Done(w, withoutQuery(r), result)
}

// maxReturn is the largest return address in bytes. The cookie contains it, so it must be
// small.
const maxReturn = 1024

// errReturn means that the return address is not a plain path of this site.
var errReturn = errors.New("connect: the return address is not allowed")

// checkReturn accepts a path of your own site, such as "/patients?tab=2". It rejects unusual
// addresses, because browsers, proxies and libraries disagree on them.
func checkReturn(address string) error {
	if address == "" || len(address) > maxReturn || strings.ContainsFunc(address, func(r rune) bool {
		return r <= ' ' || r > '~' || r == '\\'
	}) {
		return errReturn
	}
	u, err := url.Parse(address)
	if err != nil || u.Host != "" || !plainPath(u.Path) || !strings.HasPrefix(address, "/") || strings.HasPrefix(address, "//") {
		return errReturn
	}
	return nil
}

// plainPath reports whether a decoded path is unambiguous. It has no empty segment that could
// start a host, no dot segment, no backslash, no control character and no double escape.
func plainPath(path string) bool {
	if strings.ContainsFunc(path, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\\' || r == '%' }) {
		return false
	}
	for i, segment := range strings.Split(path, "/") {
		if segment == "." || segment == ".." || (segment == "" && i > 0 && i < strings.Count(path, "/")) {
			return false
		}
	}
	return true
}
