package webhook

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/defaults"
	"github.com/dispensary-go/dispensary/webhook/internal/safecall"
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

	// RespondUnsignedProbe sends the challenge token to any caller with an empty body and no
	// signature. Assumption: the platform sends an empty body when an endpoint is registered,
	// and perhaps before every event, and expects the challenge. The API does not state if the
	// body is signed. Enable this if the registration fails, and disable it afterwards: with the
	// token, others can respond in your name.
	RespondUnsignedProbe bool

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

// Handler receives the platform's webhooks: it verifies a request, stores its event in the
// [Inbox], and acknowledges it. It is an [http.Handler] and safe for concurrent use. Mount it in
// front of all middleware that reads the body. You can mount one handler for each environment and
// application, or one for all of them: see [HandlerConfig].Tenant.
//
// Responses:
//
//	200  {"challenge": …}: stored now or before, or a signed empty probe
//	400  the body is incomplete, or it is signed but contains no event with an id and a type
//	401  the signature is missing, malformed, wrong, too old or too new, or
//	     the tenant is unknown
//	405  not a POST
//	413  the body is too large
//	503  the inbox failed or took too long, or the tenant lookup failed: the
//	     platform sends the event again
//
// It never responds with 410, because the platform would disable the endpoint immediately. It
// rejects a signed body without an ID or a type, because acknowledging it without storing it would
// lose the event. The error names the missing member. The platform keeps the rejected body in its
// delivery log, and the event in its lists for 30 days.
//
// API section: "Webhooks", "Signature header".
type Handler struct {
	config  HandlerConfig
	own     *Tenant // nil if config.Tenant is set
	unknown *Tenant // rejects every request
}

// NewHandler returns a handler. It fails with an [*api.ArgumentError] if a required field is
// missing, a limit is negative, or the challenge token is one of the secrets.
func NewHandler(c HandlerConfig) (*Handler, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	own, err := c.tenants()
	if err != nil {
		return nil, err
	}
	unknown, err := newUnknownTenant()
	if err != nil {
		return nil, err
	}
	return &Handler{config: c, own: own, unknown: unknown}, nil
}

// Format prints only the environment, because the handler contains secrets.
func (h *Handler) Format(f fmt.State, _ rune) {
	name := "tenants"
	if h.own != nil {
		name = h.own.config.Environment.String()
	}
	_, _ = io.WriteString(f, "webhook.Handler("+name+")")
}

// ServeHTTP handles one request, as described at [Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := h.config.Now()
	if h.config.Observer.RequestStart != nil {
		r = r.WithContext(h.config.Observer.RequestStart(r.Context(), r))
	}
	limitBody(w, r, h.config.BodyTimeout)
	tenant := h.unknown
	lasting := context.WithoutCancel(r.Context())
	o := h.receive(lasting, w, r, start, &tenant)
	o.Tenant = tenant.config.Name
	respond(w, o, tenant.response)
	o.Duration = h.config.Now().Sub(start)
	report(lasting, o, h.config.Logger, h.config.Observer)
}

// receive handles a request. It makes cheap checks first, and does not read the body without a
// well-formed, fresh header. It sets the tenant once it is known. The context lasting does not end
// with the request.
func (h *Handler) receive(lasting context.Context, w http.ResponseWriter, r *http.Request, now time.Time, tenant **Tenant) Observation {
	if r.Method != http.MethodPost {
		return rejected(http.StatusMethodNotAllowed, ErrMethod)
	}
	var s signature
	unsigned := s.parseHeader(r.Header)
	probe := errors.Is(unsigned, ErrSignatureMissing) && h.config.RespondUnsignedProbe && isEmpty(r)
	if unsigned != nil && !probe {
		if unsigned == ErrSignatureMissing && r.ContentLength == 0 {
			unsigned = errUnsignedProbe
		}
		return rejected(http.StatusUnauthorized, unsigned)
	}
	if !probe {
		if err := s.fresh(now, h.config.Tolerance); err != nil {
			return rejected(http.StatusUnauthorized, err)
		}
	}
	t, err := h.tenantOf(r)
	if err != nil {
		return Observation{}.unavailable(err)
	}
	*tenant = t
	if probe {
		if t == h.unknown {
			return rejected(http.StatusUnauthorized, fmt.Errorf("%w: %w", ErrUnknownTenant, errUnsignedProbe))
		}
		return Observation{Outcome: OutcomeProbe, Status: http.StatusOK}
	}
	return h.verify(lasting, w, r, now, t, &s)
}

// verify checks the body against its signature, and accepts the event in it.
func (h *Handler) verify(lasting context.Context, w http.ResponseWriter, r *http.Request, now time.Time, t *Tenant, s *signature) Observation {
	body, err := readBody(w, r, h.config.MaxBody)
	if err != nil {
		return rejected(statusOfBody(err), err)
	}
	unlimitBody(w, r, h.config.BodyTimeout)
	if err := t.verifier.match(s, body); err != nil {
		if t == h.unknown {
			return rejected(http.StatusUnauthorized, ErrUnknownTenant)
		}
		return rejected(http.StatusUnauthorized, explainMismatch(r, len(body), err))
	}
	if len(body) == 0 {
		return Observation{Outcome: OutcomeProbe, Status: http.StatusOK}
	}
	event, err := events.Parse(body)
	if err != nil {
		return rejected(http.StatusBadRequest, err)
	}
	return h.accept(lasting, t, Delivery{
		Key:        Key{t.config.Environment, event.ID, event.IntegrationID},
		Type:       event.Type,
		ClinicID:   event.ClinicID,
		CreatedAt:  event.CreatedAt.Time,
		ReceivedAt: now,
		Body:       body,
		event:      &event,
	})
}

// acceptance is the result of [Inbox].Accept.
type acceptance struct {
	receipt Receipt
	err     error
}

// accept calls the inbox and waits up to AcceptTimeout. A slower call continues in its own
// goroutine.
func (h *Handler) accept(ctx context.Context, t *Tenant, d Delivery) Observation {
	o := Observation{Outcome: OutcomeAccepted, Status: http.StatusOK, Key: d.Key, Type: d.Type}
	inbox := h.config.Inbox
	if t.config.Inbox != nil {
		inbox = t.config.Inbox
	}
	if inbox == nil {
		return o.unavailable(fmt.Errorf("%w: neither the tenant nor the handler has an inbox", ErrTenant))
	}
	ctx, cancel := context.WithTimeout(ctx, h.config.AcceptTimeout)
	done := make(chan acceptance, 1)
	go func() {
		defer cancel()
		var receipt Receipt
		safecall.Run(func() (err error) {
			receipt, err = inbox.Accept(ctx, d)
			return err
		}, func(err error) { done <- acceptance{receipt, err} })
	}()
	var result acceptance
	select {
	case result = <-done:
	case <-ctx.Done():
		select {
		case result = <-done: // both were ready, so the result counts
		default:
			return o.unavailable(ErrInboxTimeout)
		}
	}
	switch {
	case result.err != nil:
		return o.unavailable(inboxError(ctx, result.err))
	case result.receipt.Duplicate:
		o.Outcome = OutcomeDuplicate
	}
	return o
}

// inboxError returns [ErrInboxTimeout] for the deadline of ctx. It wraps any other error in
// [ErrInbox].
func inboxError(ctx context.Context, err error) error {
	if errors.Is(err, context.DeadlineExceeded) && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return ErrInboxTimeout
	}
	return fmt.Errorf("%w: %w", ErrInbox, err)
}

// TenantConfig configures a [Tenant]. Environment, Secrets and Challenge are required.
type TenantConfig struct {
	// Name is the name in logs and observations. It may be empty.
	Name string

	// Environment, Secrets and Challenge are as in [HandlerConfig].
	Environment api.Environment
	Secrets     []api.Secret
	Challenge   api.Secret

	// Inbox stores the tenant's events. Nil means [HandlerConfig].Inbox. Two applications in
	// one environment need separate inboxes: the platform may send an event with the same ID to
	// both, and a shared inbox would report the second as a duplicate.
	Inbox Inbox
}

// Tenant is one application in one environment, for a [Handler] that serves several at one path.
// [HandlerConfig].Tenant returns the tenant of a request. Alternatively, mount one handler for each
// application or environment, at different paths.
//
// Environments can share an inbox, because [Key] contains the environment. Two applications in one
// environment need separate inboxes.
//
// Create each tenant once, because it prepares the keys. It is safe for concurrent use.
type Tenant struct {
	config   TenantConfig
	verifier *Verifier
	response api.Secret // the response to an acknowledged event, with the challenge
}

// NewTenant returns a tenant. It fails with an [*api.ArgumentError] for each missing field, and if
// the challenge token is one of the secrets.
func NewTenant(c TenantConfig) (*Tenant, error) {
	return newTenant("TenantConfig", c)
}

// newTenant implements [NewTenant]. Its errors name the fields of config.
func newTenant(config string, c TenantConfig) (*Tenant, error) {
	var problems []error
	if err := c.Environment.Validate(); err != nil {
		problems = append(problems, argumentError(config+".Environment", "is invalid: "+err.Error()))
	}
	if problem := problemOf(c.Challenge); problem != "" {
		problems = append(problems, argumentError(config+".Challenge", problem))
	}
	for i, secret := range c.Secrets {
		if secret == c.Challenge && !secret.IsZero() {
			problems = append(problems, argumentError(fmt.Sprintf("%s.Secrets[%d]", config, i),
				"equals Challenge: the secret key and the challenge token are two different values in the dashboard"))
		}
	}
	verifier, err := newVerifier(config, VerifierConfig{Secrets: c.Secrets})
	if err := errors.Join(append(problems, err)...); err != nil {
		return nil, err
	}
	response, err := json.Marshal(map[string]string{"challenge": c.Challenge.Reveal()})
	if err != nil {
		return nil, err
	}
	return &Tenant{config: c, verifier: verifier, response: api.NewSecret(string(response))}, nil
}

// Format prints only name and environment, because the tenant contains secrets.
func (t *Tenant) Format(f fmt.State, _ rune) {
	_, _ = io.WriteString(f, "webhook.Tenant("+t.config.Name+" "+t.config.Environment.String()+")")
}

// newUnknownTenant returns a tenant with a random secret. With it, a request for an unknown tenant
// takes as long as a forged request for a known tenant, so the time does not reveal tenants.
func newUnknownTenant() (*Tenant, error) {
	verifier, err := NewVerifier(VerifierConfig{Secrets: []api.Secret{api.NewSecret(rand.Text())}})
	return &Tenant{verifier: verifier}, err
}

// tenantOf returns the tenant of a request. It returns h.unknown instead of a nil tenant.
func (h *Handler) tenantOf(r *http.Request) (*Tenant, error) {
	if h.config.Tenant == nil {
		return h.own, nil
	}
	t, err := safecall.Value(func() (*Tenant, error) { return h.config.Tenant(r) })
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrTenant, err)
	case t == nil:
		return h.unknown, nil
	}
	return t, nil
}

// tenants returns the only tenant, or nil if c.Tenant is set.
func (c HandlerConfig) tenants() (own *Tenant, err error) {
	single := c.Environment != "" || len(c.Secrets) > 0 || !c.Challenge.IsZero()
	switch {
	case c.Tenant != nil && single:
		return nil, argumentError("HandlerConfig.Tenant", "cannot be combined with Environment, Secrets or Challenge: set those for a single tenant only")
	case c.Tenant != nil:
		return nil, nil
	}
	return newTenant("HandlerConfig", TenantConfig{Environment: c.Environment, Secrets: c.Secrets, Challenge: c.Challenge})
}
