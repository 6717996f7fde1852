package oauth

import (
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/api/observe"
	"github.com/dispensary-go/dispensary/internal/operation"
	"github.com/dispensary-go/dispensary/internal/siteurl"
	"github.com/dispensary-go/dispensary/internal/transport"
)

// Client performs OAuth requests for one application in one environment. It builds the
// authorization URL, exchanges codes, and refreshes and revokes tokens, but does not store
// them. Create one per application and environment at startup and share it.
// [github.com/dispensary-go/dispensary/oauth/tokens.Connections] stores the tokens of its
// users. A Client is safe for concurrent use.
type Client struct {
	config    Config
	transport *transport.Client
	authorize string // URL of the authorization page with its fixed parameters
	logger    *slog.Logger
}

// New validates config and returns a client. It sends no request. Errors name the missing or
// invalid field and never contain its value.
func New(config Config) (*Client, error) {
	if err := config.validate(); err != nil {
		return nil, err
	}
	config.Scopes, config.Observers = slices.Clone(config.Scopes), slices.Clone(config.Observers)
	c := &Client{config: config, logger: config.Logger}
	if c.logger == nil {
		c.logger = slog.New(slog.DiscardHandler)
	}
	var limiter api.Limiter
	if config.Limiter != nil {
		limiter = admittingLimiter{config.Limiter}
	}
	var err error
	c.transport, err = transport.New(transport.Config{
		Limiter: limiter,
		Site:    config.Site, Transport: config.Transport, AttemptTimeout: config.AttemptTimeout, Logger: config.Logger, Observers: config.Observers, UserAgent: config.UserAgent,
	})
	if err != nil {
		return nil, err
	}
	c.authorize = strings.TrimSuffix(config.Site.AuthURL, "/") + operation.OAuthAuthorize.Route + "?" + url.Values{
		"client_id":     {config.ClientID},
		"redirect_uri":  {config.RedirectURL},
		"response_type": {"code"},
	}.Encode()
	return c, nil
}

// Environment returns the region and stage of [Config].Site.
func (c *Client) Environment() api.Environment { return c.config.Site.Environment }

// ClientID returns the application's ID in the client's environment. See [Config].
func (c *Client) ClientID() string { return c.config.ClientID }

// RedirectURL returns the URL to which the platform sends browsers back. See [Config].
func (c *Client) RedirectURL() string { return c.config.RedirectURL }

// Logger returns the logger of [Config], or one that discards all records if it is nil.
func (c *Client) Logger() *slog.Logger { return c.logger }

// AuthorizeURL returns the URL of the authorization page. Redirect the user's browser to it.
// The page shows the scopes of the application. It sends the browser back to
// [Config.RedirectURL] with a code and the state, which [ParseCallback] reads.
//
// The state ties the callback to the browser that started the flow. Keep it in a cookie or in
// the session of that browser, and create a new one with [NewState] for every user and
// attempt. The platform does not require a state, but this library does. If the state is empty
// or not valid UTF-8, the error is an [api.ArgumentError].
// API section: "OAuth" (GET /oauth/authorize).
func (c *Client) AuthorizeURL(state string) (string, error) {
	if state == "" {
		return "", &api.ArgumentError{
			Operation: operation.OAuthAuthorize.Name, Field: "state",
			Reason: "is empty, so anyone could connect their account to your user: use NewState",
		}
	}
	if !utf8.ValidString(state) {
		return "", &api.ArgumentError{Operation: operation.OAuthAuthorize.Name, Field: "state", Reason: "must be valid UTF-8"}
	}
	return c.authorize + "&state=" + url.QueryEscape(state), nil
}

// NewState returns a state that cannot be guessed. It has at least 128 random bits and
// consists of letters and digits.
func NewState() string { return rand.Text() }

// String returns the environment of the client.
func (c *Client) String() string { return "oauth.Client{" + c.Environment().String() + "}" }

// Format prints [Client.String] for every verb.
func (c *Client) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, c.String()) }

// LogValue returns [Client.String] as a log value.
func (c *Client) LogValue() slog.Value { return slog.StringValue(c.String()) }

// MarshalText returns [Client.String], because encoders would read the unexported fields.
func (c *Client) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// Config describes one application in one environment, as configured in the platform's
// developer dashboard. Site, ClientID, ClientSecret and RedirectURL are required.
// API section: "Authentication" 2.
type Config struct {
	// Site is the environment with its BaseURL and AuthURL, which are both required.
	Site api.Site

	// ClientID and ClientSecret are the application's credentials in that environment. Each
	// environment has its own.
	ClientID     string
	ClientSecret api.Secret

	// RedirectURL is the URL to which the platform sends the browser back. It must match the
	// redirect URI in the dashboard exactly. Otherwise the authorization page responds with
	// 404. Every request to the token endpoint contains it too. It must use HTTPS, unless the
	// host is a loopback address, and must have no fragment.
	RedirectURL string

	// Scopes contains all scopes of the application in the dashboard, as constants of package
	// api. Nil means no check. The platform ignores scopes in requests, so the client never
	// sends them. It stores them in each new token instead. A token obtained with fewer scopes
	// is then known to be invalid without a request.
	// API section: "Authentication" 5.
	Scopes []string

	// Transport sends the requests, as with
	// [github.com/dispensary-go/dispensary.WithTransport]. Nil means a connection pool for
	// this client only.
	Transport http.RoundTripper

	// AttemptTimeout is the timeout of each attempt, as with
	// [github.com/dispensary-go/dispensary.WithAttemptTimeout]. Zero means 30 seconds. A
	// negative value means no timeout.
	AttemptTimeout time.Duration

	// Limiter delays each request that exchanges a code or refreshes or revokes a token. The
	// platform counts all requests of the application together, so use the same limiter as for
	// its API calls. A request has the priority of its context, see [api.ContextWithPriority].
	// Nil means no limit.
	Limiter api.Limiter

	// Logger receives the records of this client and of packages oauth/tokens and
	// oauth/connect: refreshed tokens (debug), users who must authorize again (info),
	// temporary failures (warn), tokens that cannot be stored and rejected credentials
	// (error). No record contains a secret. Nil disables logging.
	Logger *slog.Logger

	// Observers observe the requests to the token endpoint: exchange, refresh and revoke. Nil
	// means no observers.
	Observers []observe.Observer

	// UserAgent is your product, such as "ExampleEHR/4.2". It precedes the name of this module
	// in the User-Agent header. Empty means only the name of this module.
	UserAgent string
}

// validate returns an error for each invalid field. Errors contain names, never values.
func (c *Config) validate() error {
	problems := []error{c.Site.Validate()}
	if c.Site.AuthURL == "" {
		problems = append(problems, &api.ArgumentError{Field: "Site.AuthURL", Reason: "of " + c.Site.Environment.String() + " is empty"})
	}
	for _, f := range []struct{ name, reason string }{
		{"ClientID", credentialProblem(c.ClientID)},
		{"ClientSecret", credentialProblem(c.ClientSecret.Reveal())},
		{"RedirectURL", redirectProblem(c.RedirectURL)},
		{"Scopes", scopesProblem(c.Scopes)},
	} {
		if f.reason != "" {
			problems = append(problems, &api.ArgumentError{Field: "oauth.Config." + f.name, Reason: f.reason})
		}
	}
	return errors.Join(problems...)
}

// scopesProblem returns the reason if an item cannot be a scope, or "".
func scopesProblem(scopes []string) string {
	for _, scope := range scopes {
		if scope == "" || strings.ContainsFunc(scope, func(r rune) bool { return r <= ' ' }) {
			return "must contain one scope per item, without space"
		}
	}
	return ""
}

// credentialProblem returns the reason if a credential is unusable, such as after copying it
// with a line break from a web page, or "".
func credentialProblem(value string) string {
	switch {
	case value == "":
		return "is empty"
	case strings.ContainsFunc(value, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		return "contains space or control characters"
	case !utf8.ValidString(value):
		return "is not valid UTF-8"
	}
	return ""
}

func redirectProblem(raw string) string {
	if raw == "" {
		return "is empty"
	}
	if !utf8.ValidString(raw) {
		return "is not valid UTF-8"
	}
	u, err := url.Parse(raw)
	if err != nil {
		return "is not an absolute URL" // the parser's error contains the URL
	}
	u.RawQuery, u.ForceQuery = "", false // unlike siteurl.Validate, allow a query
	if err := siteurl.Validate(u.String()); err != nil {
		return strings.TrimPrefix(err.Error(), "dispensary: ")
	}
	return ""
}

// configuredScope returns [Config.Scopes] in the form of [Token.ConfiguredScope].
func (c *Config) configuredScope() string {
	return strings.Join(slices.Compact(slices.Sorted(slices.Values(c.Scopes))), " ")
}

// ScopesAddedSince reports whether [Config.Scopes] contains scopes that were added since the
// user authorized with token. The platform no longer accepts such a token. The result is false
// if [Config.Scopes] or [Token.ConfiguredScope] is empty.
// API section: "Authentication" 5.
func (c *Client) ScopesAddedSince(token Token) bool {
	if len(c.config.Scopes) == 0 || token.ConfiguredScope == "" {
		return false
	}
	had := strings.Fields(token.ConfiguredScope)
	return slices.ContainsFunc(c.config.Scopes, func(scope string) bool { return !slices.Contains(had, scope) })
}

// CallbackError is a callback without a usable code. With [errors.Is] it matches
// [ErrCanceled], [ErrState] or [ErrNoCode]. It matches none of them if the authorization page
// reported another error.
type CallbackError struct {
	// Code is the error code of the callback (RFC 6749, section 4.1.2.1), for example
	// "access_denied". It is empty if the callback has no code or one in an invalid form.
	Code string

	// Description is the callback's error_description. It is untrusted, because anyone can
	// create such a link: escape it, and do not log it. [CallbackError.Error] does not contain
	// it.
	Description string

	kind error
}

// Error returns the text of the sentinel followed by the error code, if any.
func (e *CallbackError) Error() string {
	switch {
	case e == nil:
		return "<nil>"
	case e.Code == "":
		return fmt.Sprint(e.kind)
	}
	return fmt.Sprint(e.kind) + ": " + e.Code
}

// Unwrap returns the sentinel.
func (e *CallbackError) Unwrap() error {
	if e == nil {
		return nil
	}
	return e.kind
}

// ParseCallback reads the query of a callback, r.URL.Query(), and returns its code for
// [Client.Exchange]. wantState is the state that [Client.AuthorizeURL] sent with this browser.
// The query must contain the same state. States are compared in constant time, and an empty
// wantState matches no state.
//
// All errors are [*CallbackError]. The API does not specify whether a canceled callback
// repeats the state. ParseCallback accepts an error without a state, because nothing is stored
// for it. An error with a wrong state is [ErrState].
// API section: "Authentication" 3.
func ParseCallback(query url.Values, wantState string) (api.Secret, error) {
	_, stated := query["state"]
	failed := query.Has("error")
	if (stated || !failed) && !stateMatches(query["state"], wantState) {
		return api.Secret{}, &CallbackError{kind: ErrState}
	}
	if failed {
		return api.Secret{}, rejectedCallback(query)
	}
	// RFC 6749, section 3.1: a parameter must not occur twice.
	if codes := query["code"]; len(codes) == 1 && codes[0] != "" {
		return api.NewSecret(codes[0]), nil
	}
	return api.Secret{}, &CallbackError{kind: ErrNoCode}
}

func stateMatches(got []string, want string) bool {
	return want != "" && len(got) == 1 && subtle.ConstantTimeCompare([]byte(got[0]), []byte(want)) == 1
}

func rejectedCallback(query url.Values) *CallbackError {
	e := &CallbackError{Code: query.Get("error"), Description: query.Get("error_description"), kind: errCallback}
	if !isErrorCode(e.Code) {
		e.Code = ""
	}
	if e.Code == "access_denied" {
		e.kind = ErrCanceled
	}
	return e
}

// maxErrorCode is the longest code, in bytes, for the text of an error.
const maxErrorCode = 64

// isErrorCode reports whether code is safe to log without escaping.
func isErrorCode(code string) bool {
	return len(code) <= maxErrorCode && !strings.ContainsFunc(code, func(r rune) bool {
		return (r < 'a' || r > 'z') && r != '_'
	})
}
