package webhook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/safecall"
)

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
	respond(w, o, tenant.answer)
	o.Duration = h.config.Now().Sub(start)
	report(lasting, o, h.config.Logger, h.config.Observer)
}

// receive handles a request. It makes cheap checks first, and does not read the body without a
// well-formed, fresh header. It sets the tenant once it is known. The context lasting does not end
// with the request.
func (h *Handler) receive(lasting context.Context, w http.ResponseWriter, r *http.Request, now time.Time, tenant **Tenant) Observation {
	if r.Method != http.MethodPost {
		return refused(http.StatusMethodNotAllowed, ErrMethod)
	}
	var s signature
	unsigned := s.parseHeader(r.Header)
	probe := errors.Is(unsigned, ErrSignatureMissing) && h.config.AnswerUnsignedProbe && isEmpty(r)
	if unsigned != nil && !probe {
		if unsigned == ErrSignatureMissing && r.ContentLength == 0 {
			unsigned = errUnsignedProbe
		}
		return refused(http.StatusUnauthorized, unsigned)
	}
	if !probe {
		if err := s.fresh(now, h.config.Tolerance); err != nil {
			return refused(http.StatusUnauthorized, err)
		}
	}
	t, err := h.tenantOf(r)
	if err != nil {
		return Observation{}.unavailable(err)
	}
	*tenant = t
	if probe {
		if t == h.unknown {
			return refused(http.StatusUnauthorized, fmt.Errorf("%w: %w", ErrUnknownTenant, errUnsignedProbe))
		}
		return Observation{Outcome: OutcomeProbe, Status: http.StatusOK}
	}
	return h.verify(lasting, w, r, now, t, &s)
}

// verify checks the body against its signature, and accepts the event in it.
func (h *Handler) verify(lasting context.Context, w http.ResponseWriter, r *http.Request, now time.Time, t *Tenant, s *signature) Observation {
	body, err := readBody(w, r, h.config.MaxBody)
	if err != nil {
		return refused(statusOfBody(err), err)
	}
	unlimitBody(w, r, h.config.BodyTimeout)
	if err := t.verifier.match(s, body); err != nil {
		if t == h.unknown {
			return refused(http.StatusUnauthorized, ErrUnknownTenant)
		}
		return refused(http.StatusUnauthorized, explainMismatch(r, len(body), err))
	}
	if len(body) == 0 {
		return Observation{Outcome: OutcomeProbe, Status: http.StatusOK}
	}
	event, err := events.Parse(body)
	if err != nil {
		return refused(http.StatusBadRequest, err)
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
