package oauth

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"strings"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/api/observe"
	"github.com/dispensary-go/dispensary/internal/operation"
	"github.com/dispensary-go/dispensary/internal/transport"
)

// Client speaks OAuth for one application in one environment, and refreshes the
// tokens of all its users. Make one per application and environment when the
// program starts and share it: what makes one refresh per user happen in a
// process lives here. It is safe for concurrent use.
type Client struct {
	// config is behind a pointer, like everything that holds a secret, so that
	// printing a Client by reflection shows an address.
	config    *Config
	transport *transport.Client
	authorize string // address of the authorization page with its fixed query
	logger    *slog.Logger

	flights   flights
	cooling   cooldowns
	retrying  cooldowns // of users who were marked
	forcing   *forcing
	unwritten pairs
	faults    faults
	endpoint  endpoint
	breaker   breaker
}

// New checks config and returns a client. It sends nothing. Errors name the
// field that is missing or unusable and never repeat its value.
func New(config Config) (*Client, error) {
	if err := config.validate(); err != nil {
		return nil, err
	}
	c := &Client{config: config.withDefaults(), logger: config.Logger, forcing: newForcing()}
	c.cooling = cooldowns{first: firstCooldown, last: lastCooldown, memory: cooldownMemory}
	c.retrying = cooldowns{first: firstRetry, last: lastRetry, memory: lastRetry}
	if c.logger == nil {
		c.logger = slog.New(slog.DiscardHandler)
	}
	calls := make([]observe.Observer, len(config.Observers))
	for i, observer := range config.Observers {
		calls[i] = observer.Calls
	}
	var err error
	c.transport, err = transport.New(transport.Config{
		Site: config.Site, HTTPClient: config.HTTPClient, Logger: config.Logger, Observers: calls, UserAgent: config.UserAgent,
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

// Key returns the key under which a [Store] holds the token of user.
func (c *Client) Key(user string) Key { return Key{Environment: c.Environment(), User: user} }

// AuthorizeURL returns the address of the authorization page, to redirect the
// user's browser to. The page shows the scopes of the application and sends the
// browser back to [Config.RedirectURL] with a code and the state; see
// [ParseCallback].
//
// The state ties the answer to the browser that asked: keep it there, in a
// cookie or a session, and make a new one for every user and try ([NewState]).
// The platform does not require one, this library does: an empty state is an
// [api.ArgumentError].
// API section: "OAuth" (GET /oauth/authorize).
func (c *Client) AuthorizeURL(state string) (string, error) {
	if state == "" {
		return "", &api.ArgumentError{
			Operation: operation.OAuthAuthorize.Name, Field: "state",
			Reason: "is empty: without it anyone can connect their account to your user; use NewState",
		}
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

// log writes a record that names the user's key.
func (c *Client) log(ctx context.Context, level slog.Level, message string, key Key, attrs ...slog.Attr) {
	c.logger.LogAttrs(ctx, level, "dispensary oauth: "+message,
		append(attrs, slog.String("environment", key.Environment.String()), slog.String("user", key.User))...)
}
