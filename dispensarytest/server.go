package dispensarytest

import (
	"crypto/x509"
	"net"
	"net/http"
	"slices"
	"sync"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/clock"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/faults"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/ids"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/memhttp"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/people"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/rules"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
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

	set        settings
	app        model.Application
	clock      *clock.Clock
	tokens     *tokens.Store
	faults     faults.Set
	rules      rules.Current
	limit      *faults.Handle // of the behavior rate-limit
	requestIDs ids.Requests
	changes    clock.Notifier

	store  *store.Store
	sender *webhooks.Sender
	people *people.People

	origin      string
	handler     http.Handler
	listener    net.Listener // nil in memory
	net         *memhttp.Network
	http        *http.Server      // nil in memory
	certificate *x509.Certificate // nil without TLS
	client      *http.Client
	once        sync.Once
	closed      error
}

// Close stops the webhook sender and the listener, and drops open connections. Due deliveries
// are not made. When Close returns, no part of the platform runs. It does not wait for your
// own handlers. A second call does nothing.
func (s *Server) Close() error {
	s.once.Do(func() {
		s.sender.Close()
		s.clock.Unwatch(&s.changes)
		s.changes.Close()
		s.net.Close()
		if s.http != nil {
			s.closed = s.http.Close()
		}
		if s.client != nil {
			s.client.CloseIdleConnections()
		}
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
	for i := range table.All(held.World.Integrations) {
		if len(clinicIDs) == 0 || slices.Contains(clinicIDs, i.ClinicID) {
			keys = append(keys, i.Key)
		}
	}
	return keys
}

// Users returns the accounts that can sign in on the authorize page.
func (s *Server) Users() []model.User {
	return s.store.Users()
}

// Events returns the stored events, oldest first: up to Tuning.EventLimit events of the last
// 30 days.
func (s *Server) Events() []model.Event { return s.people.Events() }

// Overview returns up to latest rows of each kind, newest first, and the totals. It takes the
// same time in a world of any size, in contrast to [Orders.All].
func (s *Server) Overview(latest int) model.Overview { return s.people.Overview(latest) }

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
