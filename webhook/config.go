package webhook

import (
	"cmp"
	"log/slog"
	"net/http"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/webhook/internal/safecall"
)

// Defaults of a [HandlerConfig].
const (
	// DefaultMaxBody is 1 MiB. The API states no limit; events of a few
	// kilobytes are usual.
	DefaultMaxBody = 1 << 20

	// DefaultAcceptTimeout leaves room below the platform's own time-out, which
	// is not published. Assumption: it is two seconds.
	DefaultAcceptTimeout = 800 * time.Millisecond

	// DefaultBodyTimeout is as long as the platform waits for a response.
	// Assumption: it waits 2 seconds.
	DefaultBodyTimeout = 2 * time.Second
)

// HandlerConfig is what a [Handler] is made of. Environment, Secrets, Challenge and
// Inbox are required, or Tenant in place of the first three; everything else has
// a default.
type HandlerConfig struct {
	// Environment is the one whose webhooks are received: the platform has one
	// webhook address, one secret and one challenge token in each.
	Environment api.Environment

	// Secrets are the webhook secret keys that signatures may be made with:
	// one, or while it is rotated the new and the old one.
	Secrets []api.Secret

	// Challenge is the challenge token that acknowledges an event. It stands in
	// the developer dashboard beside the secret, and is not the secret.
	Challenge api.Secret

	// Tenant returns the tenant that a request is for, where one address serves several
	// applications, regions or environments: by the path, the host, a query
	// parameter of the registered address. Environment, Secrets and Challenge
	// stay empty then. It must not read the body, and is asked only about
	// requests with a well-formed, fresh signature header, or unsigned probes.
	//
	// A nil tenant is an unknown one: the answer is 401, after as much work as for
	// a wrong signature. An error is answered with 503, so that the
	// platform sends the event again; its text is logged.
	Tenant func(*http.Request) (*Tenant, error)

	// Inbox stores events before they are acknowledged. With Tenant it is the inbox
	// of tenants that do not have their own, and is not required.
	Inbox Inbox

	// Tolerance is how far a signature's timestamp may be from now in either
	// direction; 0 means [DefaultTolerance].
	Tolerance time.Duration

	// MaxBody is how many bytes a body may have; 0 means [DefaultMaxBody].
	MaxBody int64

	// BodyTimeout is how long a caller may take to send the body. 0 means
	// [DefaultBodyTimeout]. A shorter http.Server.ReadTimeout takes precedence.
	BodyTimeout time.Duration

	// AcceptTimeout is how long the inbox may take; 0 means
	// [DefaultAcceptTimeout].
	AcceptTimeout time.Duration

	// AnswerUnsignedProbe shows the challenge token to anyone who sends an
	// empty body without a signature. Assumption: the platform sends an empty
	// body when an address is registered, and perhaps before every event, and
	// wants the challenge back; whether it signs it is not known. With this off
	// only a signed empty body is answered. Turn it on if registration fails,
	// and off again afterwards: the token alone gives no access, but with it
	// others can answer in your name.
	AnswerUnsignedProbe bool

	// Logger logs every request: outcome, status, event id and type, reason; never
	// anything of a body. Nil logs nothing.
	Logger *slog.Logger

	// Observer watches every request: its RequestStart and RequestEnd.
	Observer Observer

	// Now is the clock; nil means [time.Now].
	Now func() time.Time
}

// withDefaults checks c and fills in what was left out.
func (c HandlerConfig) withDefaults() (HandlerConfig, error) {
	switch {
	case c.Inbox == nil && c.Tenant == nil:
		return c, argumentError("HandlerConfig.Inbox", "is missing")
	case c.MaxBody < 0:
		return c, argumentError("HandlerConfig.MaxBody", "is negative")
	case c.BodyTimeout < 0:
		return c, argumentError("HandlerConfig.BodyTimeout", "is negative")
	case c.AcceptTimeout < 0:
		return c, argumentError("HandlerConfig.AcceptTimeout", "is negative")
	case c.Tolerance < 0:
		return c, argumentError("HandlerConfig.Tolerance", "is negative")
	}
	c.MaxBody = cmp.Or(c.MaxBody, DefaultMaxBody)
	c.AcceptTimeout = cmp.Or(c.AcceptTimeout, DefaultAcceptTimeout)
	c.BodyTimeout = cmp.Or(c.BodyTimeout, DefaultBodyTimeout)
	c.Tolerance = cmp.Or(c.Tolerance, DefaultTolerance)
	c.Logger = safecall.Logger(c.Logger)
	if c.Now == nil {
		c.Now = time.Now
	}
	return c, nil
}
