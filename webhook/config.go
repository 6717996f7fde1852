package webhook

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/webhook/internal/safecall"
)

// Defaults of a [Config].
const (
	// DefaultMaxBody is 1 MiB. The API states no limit; events of a few
	// kilobytes are usual.
	DefaultMaxBody = 1 << 20

	// DefaultAcceptTimeout leaves room below the platform's own time-out, which
	// is not published. Assumption: it is two seconds.
	DefaultAcceptTimeout = 800 * time.Millisecond
)

// Config is what a [Handler] is made of. Environment, Secrets, Challenge and
// Inbox are required, or Tenant in place of the first three; everything else has
// a default.
type Config struct {
	// Environment is the one whose webhooks are received: the platform has one
	// webhook address, one secret and one challenge token in each.
	Environment api.Environment

	// Secrets are the webhook secret keys that signatures may be made with:
	// one, or while it is rotated the new and the old one.
	Secrets []api.Secret

	// Challenge is the challenge token that acknowledges an event. It stands in
	// the developer dashboard beside the secret, and is not the secret.
	Challenge api.Secret

	// Tenant says whom a request is for, where one address serves several
	// applications, regions or environments: by the path, the host, a query
	// parameter of the registered address. Environment, Secrets and Challenge
	// stay empty then. It must not read the body, and is asked only about
	// requests with a well-formed, fresh signature header, or unsigned probes.
	//
	// A nil tenant is one that nobody knows: the answer is 401, after as much
	// work as for a wrong signature. An error is answered with 503, so that the
	// platform sends the event again; its text is logged.
	Tenant func(*http.Request) (*Tenant, error)

	// Inbox stores events before they are acknowledged. With Tenant it is that
	// of tenants who have none of their own, and not required.
	Inbox Inbox

	// Tolerance is how far a signature's timestamp may be from now in either
	// direction; 0 means [DefaultTolerance].
	Tolerance time.Duration

	// MaxBody is how many bytes a body may have; 0 means [DefaultMaxBody].
	MaxBody int64

	// AcceptTimeout is how long the inbox may take; 0 means
	// [DefaultAcceptTimeout].
	AcceptTimeout time.Duration

	// AnswerUnsignedProbe shows the challenge token to anyone who sends an
	// empty body without a signature. Assumption: the platform sends an empty
	// body when an address is registered, and perhaps before every event, and
	// wants the challenge back; whether it signs it is not known. With this off
	// only a signed empty body is answered. Turn it on if registration fails,
	// and off again afterwards: the token alone lets nobody in, but whoever has
	// it can answer in your name.
	AnswerUnsignedProbe bool

	// Logger is told of every request: outcome, status, event id and type,
	// reason; never anything of a body. Nil means silence.
	Logger *slog.Logger

	// Begin is called before a request is looked at, for traces; nil means that
	// nobody is. It must not read the body. The context that it returns, which
	// has to be made from that of the request, is what Tenant, the inbox and
	// Observe are given; nil means the request's own.
	Begin func(*http.Request) context.Context

	// Observe is called after every request, for counters and alarms; nil means
	// that nobody is. It runs before the request ends, so it must be quick.
	Observe func(context.Context, Observation)

	// Now is the clock; nil means [time.Now].
	Now func() time.Time
}

// withDefaults checks c and fills in what was left out.
func (c Config) withDefaults() (Config, error) {
	switch {
	case c.Inbox == nil && c.Tenant == nil:
		return c, errors.New("webhook: Inbox is missing")
	case c.MaxBody < 0:
		return c, errors.New("webhook: MaxBody is negative")
	case c.AcceptTimeout < 0:
		return c, errors.New("webhook: AcceptTimeout is negative")
	case c.Tolerance < 0:
		return c, errors.New("webhook: Tolerance is negative")
	}
	orDefault(&c.MaxBody, DefaultMaxBody)
	orDefault(&c.AcceptTimeout, DefaultAcceptTimeout)
	orDefault(&c.Tolerance, DefaultTolerance)
	c.Logger = safecall.Logger(c.Logger)
	if c.Now == nil {
		c.Now = time.Now
	}
	return c, nil
}
