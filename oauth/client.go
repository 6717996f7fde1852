package oauth

import (
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/operation"
	"github.com/dispensary-go/dispensary/internal/transport"
)

// Client speaks OAuth for one application in one environment: it builds the
// authorization address, exchanges codes, refreshes and revokes tokens, and keeps
// nothing. Make one per application and environment when the program starts and
// share it; [github.com/dispensary-go/dispensary/oauth/tokens.Connections] keeps
// the tokens of its users. It is safe for concurrent use.
type Client struct {
	config    Config
	transport *transport.Client
	authorize string // address of the authorization page with its fixed query
	logger    *slog.Logger
}

// New checks config and returns a client. It sends nothing. Errors name the
// field that is missing or unusable and never repeat its value.
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

// Environment returns the environment the client works in.
func (c *Client) Environment() api.Environment { return c.config.Site.Environment }

// ClientID returns the application's id in its environment; see [Config].
func (c *Client) ClientID() string { return c.config.ClientID }

// RedirectURL returns where the platform sends browsers back to; see [Config].
func (c *Client) RedirectURL() string { return c.config.RedirectURL }

// Logger returns the logger of [Config], or one that discards everything.
func (c *Client) Logger() *slog.Logger { return c.logger }

// AuthorizeURL returns the address of the authorization page, to redirect the
// user's browser to. The page shows the scopes of the application and sends the
// browser back to [Config.RedirectURL] with a code and the state; see
// [ParseCallback].
//
// The state ties the answer to the browser that asked: keep it there, in a
// cookie or a session, and make a new one for every user and try ([NewState]).
// The platform does not require one, this library does: a state that is empty or
// not valid UTF-8 is an [api.ArgumentError].
// API section: "OAuth" (GET /oauth/authorize).
func (c *Client) AuthorizeURL(state string) (string, error) {
	if state == "" {
		return "", &api.ArgumentError{
			Operation: operation.OAuthAuthorize.Name, Field: "state",
			Reason: "is empty: without it anyone can connect their account to your user; use NewState",
		}
	}
	if !utf8.ValidString(state) {
		return "", &api.ArgumentError{Operation: operation.OAuthAuthorize.Name, Field: "state", Reason: "must be valid UTF-8"}
	}
	return c.authorize + "&state=" + url.QueryEscape(state), nil
}

// NewState returns a state that cannot be guessed: at least 128 random bits, in
// letters and digits.
func NewState() string { return rand.Text() }

// String names the application's environment.
func (c *Client) String() string { return "oauth.Client{" + c.Environment().String() + "}" }

// Format prints [Client.String] for every verb.
func (c *Client) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, c.String()) }

// LogValue is [Client.String].
func (c *Client) LogValue() slog.Value { return slog.StringValue(c.String()) }

// MarshalText is [Client.String], for encoders that would look inside.
func (c *Client) MarshalText() ([]byte, error) { return []byte(c.String()), nil }
