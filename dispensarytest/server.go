package dispensarytest

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/clock"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/faults"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/tokens"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/webhooks"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// Server is a whole dispensary platform for one region: API, authorize page, webhook sender,
// and the platform's own users. It is safe for concurrent use. Servers do not affect each
// other.
//
// The people who use the platform itself are the second actor. Their actions emit events and
// return them. Your API calls emit no events:
//
//	order, event, err := fake.Orders.Place(patient.ID, model.OrderCreate{})
//	err = fake.Webhooks.WaitDelivered(ctx, event.ID)
//
// Actions fail with an error that wraps [model.ErrNotFound], [model.ErrValidation] or
// [model.ErrState], and then change nothing. If an action emits no event, the returned event
// has no ID.
type Server struct {
	Patients  Patients
	Plans     Plans
	Protocols Protocols
	Orders    Orders
	Products  Products
	Clinics   Clinics
	Webhooks  Webhooks
	Tokens    Tokens
	Clock     *Clock
	Journal   *Journal

	Practitioners Records[model.Practitioner]
	Variants      Records[model.Variant] // the packs of all products

	set     settings
	app     model.Application
	clock   *clock.Clock
	tokens  *tokens.Store
	faults  faults.Set
	rules   ruleSet
	changes clock.Notifier

	store   *store.Store
	sender  *webhooks.Sender
	actions interface { // keeps the types of its tables out of importers' builds
		Events() []model.Event
		Overview(latest int) model.Overview
	}

	front
	handler http.Handler
	once    sync.Once
	closed  error
}

// Close stops the webhook sender and the listener, and drops open connections. Due deliveries
// are not made. When Close returns, no part of the platform runs. It does not wait for your
// own handlers. A second call does nothing.
func (s *Server) Close() error {
	s.once.Do(func() {
		s.sender.Close()
		s.clock.Unwatch(&s.changes)
		s.changes.Close()
		s.closed = s.front.close()
	})
	return s.closed
}

// Application returns the integrator's registration.
func (s *Server) Application() model.Application {
	app := s.app
	app.Scopes = s.tokens.ApplicationScopes()
	return app
}

// ClinicKey returns the key of the first clinic's first integration, for the header
// X-SVC-Clinic-Key. API section: "Authentication" 9.
func (s *Server) ClinicKey() string { return s.ClinicKeys()[0] }

// ClinicKeys returns the keys of all integrations of the given clinics, or of all clinics
// without arguments.
func (s *Server) ClinicKeys(clinicIDs ...string) []string {
	held := s.store
	held.RLock()
	defer held.RUnlock()
	var keys []string
	for _, i := range held.World.Integrations.Rows {
		if len(clinicIDs) == 0 || slices.Contains(clinicIDs, i.ClinicID) {
			keys = append(keys, i.Key)
		}
	}
	return keys
}

// Users returns the accounts that can sign in on the authorize page.
func (s *Server) Users() []model.User { return s.store.Users() }

// Events returns the stored events, oldest first: up to Tuning.EventLimit events of the last
// 30 days.
func (s *Server) Events() []model.Event { return s.actions.Events() }

// Overview returns up to latest rows of each kind, newest first, and the totals. It takes the
// same time in a world of any size, in contrast to [Orders.All].
func (s *Server) Overview(latest int) model.Overview { return s.actions.Overview(latest) }

// Changes returns a channel that is closed at the next change on the platform: a response, an
// action of its people, a delivery attempt, a move of its clock, a token or a fault. It
// returns false once the platform is closed. A console waits on it between refreshes:
//
//	for next, open := fake.Changes(); open; next, open = fake.Changes() {
//		show(fake)
//		<-next
//	}
//
// Passing time is not a change.
func (s *Server) Changes() (next <-chan struct{}, open bool) { return s.changes.Wait() }

// Clock is the clock of a platform. Authorization codes, access tokens, webhook retries, the
// 30 days of retention and signature timestamps use it. A live clock follows the time package,
// and so the time of the bubble inside testing/synctest. A frozen clock moves only by
// [Clock.Advance].
//
// A Clock is safe for concurrent use. Several platforms can share one with [WithClock].
type Clock struct{ clock *clock.Clock }

// FrozenClock returns a clock that stays at the given time until it is advanced.
func FrozenClock(at time.Time) *Clock { return &Clock{clock.Frozen(at)} }

// Now returns the platform's time, in UTC.
func (c *Clock) Now() time.Time { return c.clock.Now() }

// Frozen reports whether the clock moves only by [Clock.Advance].
func (c *Clock) Frozen() bool { return c.clock.Frozen() }

// Next returns the time of the next task, a webhook delivery or retry. It returns false if
// there is none.
func (c *Clock) Next() (time.Time, bool) { return c.clock.Next() }

// Advance moves the clock forward and runs all tasks that become due, including tasks that
// those tasks schedule. It runs them in order, each at its own time, and then returns.
// Advance(0) runs the tasks that are already due.
//
// A webhook receiver of this platform must not call Advance, because its delivery is one of
// the tasks. Advance panics if d is negative.
func (c *Clock) Advance(d time.Duration) { c.clock.Advance(d) }

// Tokens are the access and refresh tokens of the integrator's application.
type Tokens interface {
	// Issue grants a user's consent without the browser, and returns the tokens. Without
	// scopes the token has the application's scopes. It panics on an unknown scope or user.
	Issue(user model.User, scopes ...string) model.Token

	// Expire expires an access token now. Its refresh token stays valid.
	Expire(accessToken string) error

	// InvalidateAll invalidates every access and refresh token. Users must authorize again.
	InvalidateAll()

	// Revoke ends the consent of one user, like a withdrawal by the user: every access token,
	// refresh token and open code of the user. All other users keep theirs. The zero User is
	// the first practitioner. Revoke panics if the platform has no such user.
	Revoke(user model.User)

	// ExtendScopes adds scopes to the application, which invalidates every token and
	// refresh token. API section: "Authentication" 5.
	ExtendScopes(scopes ...string) error

	// Credentials returns every access token, refresh token and open authorization code, in
	// this order, with the oldest access token first.
	Credentials() []model.Credential
}

// Webhooks are the integrator's webhook endpoint and its deliveries.
type Webhooks interface {
	// Register registers the endpoint in place of an earlier one, and subscribes it to
	// event types. Without types it is subscribed to all. Plain HTTP is accepted only on
	// loopback. With a probe mode other than "off" the endpoint must first respond to
	// an empty request with its challenge.
	Register(address string, types ...string) error

	// RegisterHandler registers a handler as the webhook endpoint. Events reach it without
	// a socket, signed as usual. It combines [Server.Host] and Register.
	RegisterHandler(handler http.Handler, types ...string) error

	// Enable enables a disabled endpoint, as the developer dashboard does. Deliveries that
	// stopped meanwhile do not resume, except with the behavior resume-after-enable.
	Enable() error

	// Endpoint returns the registered endpoint. It returns false if there is none.
	Endpoint() (model.Endpoint, bool)

	// Deliveries returns the deliveries of kept events in the order of their events. See
	// Tuning.EventLimit.
	Deliveries() []model.Delivery

	// WaitDelivered waits until an event is delivered to every integration it concerns,
	// without polling. It returns an error with the reason if the event was not sent, has
	// no attempts left, met a disabled endpoint, or waits for a retry on a frozen clock.
	WaitDelivered(ctx context.Context, eventID string) error
}
