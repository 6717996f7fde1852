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
