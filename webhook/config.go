package webhook

import (
	"cmp"
	"log/slog"
	"net/http"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/defaults"
	"github.com/dispensary-go/dispensary/internal/safecall"
)

// Defaults of a [HandlerConfig].
const (
	defaultMaxBody       = 1 << 20
	defaultAcceptTimeout = 800 * time.Millisecond
	defaultBodyTimeout   = 2 * time.Second
)

// HandlerConfig configures a [Handler]. Inbox is required, and either Tenant or Environment,
// Secrets and Challenge.
type HandlerConfig struct {
	// Environment is the environment of the webhooks. Each has one endpoint, one secret and
	// one challenge token.
	Environment api.Environment

	// Secrets are the webhook secret keys: one, or the new and the old key during a rotation. To
	// rotate the key, set both until the change of the dashboard has taken effect everywhere. A
	// request is accepted if any signature in its header matches any of the secrets.
	Secrets []api.Secret

	// Challenge is the challenge token that acknowledges an event. The developer dashboard
	// shows it beside the secret.
	Challenge api.Secret

	// Tenant returns the tenant of a request if one path serves several applications, regions
	// or environments. It must not read the body. The handler calls it only for requests with a
	// well-formed, fresh signature header, and for unsigned probes. Environment, Secrets
	// and Challenge must be empty.
	//
	// If it returns nil, the tenant is unknown: the response is 401, after as much work as for a
	// wrong signature. If it returns an error, the response is 503, so the platform sends the
	// event again. The text of the error is logged.
	Tenant func(*http.Request) (*Tenant, error)

	// Inbox stores events before they are acknowledged. With Tenant, it is the default of
	// tenants without an inbox, and is not required.
	Inbox Inbox

	// Tolerance is the largest difference between the timestamp of a signature and now, in
	// either direction. 0 means 5 minutes.
	Tolerance time.Duration

	// MaxBody is the largest size of a body in bytes. 0 means 1 MiB. The API states no limit.
	// Events of a few kilobytes are usual.
	MaxBody int64

	// BodyTimeout limits the time for the body. 0 means 2 seconds. Assumption: the platform
	// waits 2 seconds for a response. A shorter http.Server.ReadTimeout takes precedence.
	BodyTimeout time.Duration

	// AcceptTimeout limits the time of the inbox. 0 means 800 ms, which leaves room below the
	// platform's own timeout. Assumption: that is 2 seconds.
	AcceptTimeout time.Duration

	// AnswerUnsignedProbe sends the challenge token to any caller with an empty body and no
	// signature. Assumption: the platform sends an empty body when an endpoint is registered,
	// and perhaps before every event, and expects the challenge. The API does not state if the
	// body is signed. Enable this if the registration fails, and disable it afterwards: with the
	// token, others can respond in your name.
	AnswerUnsignedProbe bool

	// Logger logs the outcome, status, event ID, type and reason of every request, but no part
	// of a body. Nil disables logging.
	Logger *slog.Logger

	// Observer watches every request with its RequestStart and RequestEnd.
	Observer Observer

	// Now is the clock. Nil means [time.Now].
	Now func() time.Time
}

// withDefaults checks c and sets the defaults of empty fields.
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
	c.MaxBody = cmp.Or(c.MaxBody, defaultMaxBody)
	c.AcceptTimeout = cmp.Or(c.AcceptTimeout, defaultAcceptTimeout)
	c.BodyTimeout = cmp.Or(c.BodyTimeout, defaultBodyTimeout)
	c.Tolerance = cmp.Or(c.Tolerance, defaults.SignatureTolerance)
	c.Logger = safecall.Logger(c.Logger)
	c.Observer = c.Observer.safe(c.Logger)
	if c.Now == nil {
		c.Now = time.Now
	}
	return c, nil
}
