package dispensarytest

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/clock"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/memhttp"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/operations"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/rules"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/webhooks"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// Option sets up a platform. Options that contradict the API fail on
// construction. A nil Option changes nothing.
type Option func(*settings) error

type settings struct {
	rules          rules.Set // of what the API leaves open
	addr           string
	seed           uint64
	region         model.Region
	clock          *clock.Clock
	redirectURI    string
	scopes         []string
	clinicTokens   bool
	inMemory       bool
	tls            bool
	requireTLS     bool
	journalLimit   int
	keepBodies     bool
	eventLimit     int
	integrations   int
	webhook        *model.Endpoint
	deliveryClient *http.Client
	parallel       int // deliveries at a time
	size           model.WorldSize
	snapshot       *Snapshot
}

// defaultAddr is a free port of the loopback interface.
const defaultAddr = "127.0.0.1:0"

func defaults() settings {
	return settings{
		addr: defaultAddr, seed: store.DefaultSeed, region: model.UnitedStates,
		redirectURI: "http://127.0.0.1/callback", scopes: operations.AllScopes(),
		journalLimit: 10_000, eventLimit: 50_000, integrations: 1, rules: rules.Defaults(),
	}
}

// ErrOption tells that [Start] failed because an option has a value that no platform
// can have, and not because of the machine.
var ErrOption = errors.New("dispensarytest: wrong option")

// optionError is what is wrong with an option.
type optionError struct{ err error }

// Error says what is wrong.
func (e *optionError) Error() string { return e.err.Error() }

// Is reports whether target is [ErrOption].
func (e *optionError) Is(target error) bool { return target == ErrOption }

// Unwrap returns what is wrong.
func (e *optionError) Unwrap() error { return e.err }

func configure(opts []Option) (settings, error) {
	set := defaults()
	for _, opt := range opts {
		if opt == nil {
			continue
		}
		if err := opt(&set); err != nil {
			return set, &optionError{err}
		}
	}
	if set.inMemory && (set.tls || set.addr != defaultAddr) {
		return set, &optionError{errors.New("dispensarytest: WithInMemory: there is no socket for WithTLS or WithAddr")}
	}
	// Both have an https address, at which plain HTTP is refused.
	set.requireTLS = set.requireTLS || set.tls || set.inMemory
	if set.clock == nil && set.snapshot != nil {
		set.clock = set.snapshot.state.clock()
	}
	if set.clock == nil {
		set.clock = clock.Live()
	}
	return set, nil
}

// world returns the world of a new platform.
func (s *settings) world() *store.World {
	if s.snapshot != nil {
		return s.snapshot.state.World.Clone()
	}
	return store.NewWorld(s.seed, s.region, s.size)
}

// WithAddr listens on a given address, such as "127.0.0.1:8080"; the
// default is a free port of the loopback interface.
func WithAddr(addr string) Option {
	return func(s *settings) error {
		s.addr = addr
		if _, _, err := net.SplitHostPort(addr); err != nil {
			return fmt.Errorf("dispensarytest: WithAddr: %w", err)
		}
		return nil
	}
}

// WithClock uses a clock that is frozen, or shared with another platform. The
// default is a live clock.
func WithClock(clock *Clock) Option {
	return func(s *settings) error {
		if clock == nil {
			return errors.New("dispensarytest: WithClock: no clock")
		}
		s.clock = clock.clock
		return nil
	}
}

// WithClinicTokens makes the application one from before 2021-08-26: its tokens
// stand for the clinic, and their resource owner's type is Clinic.
// API section: "Authentication" 4.
func WithClinicTokens() Option {
	return func(s *settings) error { s.clinicTokens = true; return nil }
}

// WithDeliveryClient sends webhooks through a given HTTP client, for
// example one that trusts a test certificate. Redirects and time-outs stay the
// platform's.
func WithDeliveryClient(client *http.Client) Option {
	return func(s *settings) error {
		if client == nil {
			return errors.New("dispensarytest: WithDeliveryClient: no client")
		}
		s.deliveryClient = client
		return nil
	}
}

// WithDeliveryTimeout sets how long a webhook endpoint may take; the default of
// 2 seconds is an assumption.
func WithDeliveryTimeout(d time.Duration) Option {
	return func(s *settings) error {
		if d <= 0 {
			return errors.New("dispensarytest: WithDeliveryTimeout: not a positive duration")
		}
		s.rules.SendTimeout = d
		return nil
	}
}

// WithEventLimit bounds how many events the platform keeps, and as many deliveries
// beside those that are still due; the oldest are forgotten first, and all of them
// after 30 days. The default is 50,000. That there is a limit is an assumption: the
// API says 30 days alone.
func WithEventLimit(n int) Option {
	return func(s *settings) error {
		if n < 1 {
			return errors.New("dispensarytest: WithEventLimit: a platform keeps at least one event")
		}
		s.eventLimit = n
		return nil
	}
}

// WithInMemory does without sockets: [Server.HTTPClient], and a client made with
// it, calls the platform in the same process, with time-outs, cancellation and
// streaming as on a connection. The platform's address is one that no resolver
// knows and that only this platform's client reaches; it is https, and plain
// HTTP to it is refused. Nothing blocks on anything but channels and the time
// package, so that such a platform runs inside testing/synctest.
//
// Use [Server.Host] or [Webhooks.RegisterHandler] for the integrator's side.
func WithInMemory() Option {
	return func(s *settings) error { s.inMemory = true; return nil }
}

// WithIntegrations gives the clinic several integrations. Every event is then
// sent once for each, with the same event id and another integration_id.
// API section: "Webhooks" 6.
func WithIntegrations(n int) Option {
	return func(s *settings) error {
		if n < 1 || n > 100 {
			return fmt.Errorf("dispensarytest: WithIntegrations(%d): a clinic has 1 to 100", n)
		}
		s.integrations = n
		return nil
	}
}

// WithJournalLimit bounds how many requests the journal remembers; the oldest
// are forgotten first. The default is 10,000.
func WithJournalLimit(n int) Option {
	return func(s *settings) error {
		if n < 1 {
			return errors.New("dispensarytest: WithJournalLimit: a journal holds at least one request")
		}
		s.journalLimit = n
		return nil
	}
}

// WithBodies lets the journal remember the bodies of requests and answers too, up to
// 16 KiB of each, for people who look at what was sent: [model.Request.RequestBody]. The
// token endpoints' are kept without tokens, codes and the client's secret. Without it
// there are none.
func WithBodies() Option {
	return func(s *settings) error {
		s.keepBodies = true
		return nil
	}
}

// WithParallelDelivery makes up to n deliveries at a time, for load tests of a
// receiver. The default is 1. [Clock.Advance] does not wait for them then; use
// [Webhooks.WaitDelivered].
func WithParallelDelivery(n int) Option {
	return func(s *settings) error {
		s.parallel = n
		if n < 1 || n > 1000 {
			return fmt.Errorf("dispensarytest: WithParallelDelivery(%d): 1 to 1000", n)
		}
		return nil
	}
}

// WithRedirectURI sets where the application's users come back to. It is
// compared character for character. The default is
// "http://127.0.0.1/callback".
func WithRedirectURI(uri string) Option {
	return func(s *settings) error {
		u, err := url.Parse(uri)
		if err == nil && u.User != nil {
			return fmt.Errorf("dispensarytest: WithRedirectURI: the address at %s: it names a user", u.Host)
		}
		if err != nil || u.Host == "" || u.Fragment != "" {
			return fmt.Errorf("dispensarytest: WithRedirectURI(%q): not an absolute address without fragment", uri)
		}
		if u.Scheme != "https" && u.Scheme != "http" {
			return fmt.Errorf("dispensarytest: WithRedirectURI(%q): must begin with https://, or on loopback with http://", uri)
		}
		if u.Scheme == "http" && !memhttp.IsLoopback(u.Hostname()) {
			return fmt.Errorf("dispensarytest: WithRedirectURI(%q): plain HTTP only on loopback", uri)
		}
		s.redirectURI = uri
		return nil
	}
}

// WithRegion makes the platform that of another country; the default is
// [model.UnitedStates]. The two regions know nothing of each other's tokens and data.
func WithRegion(region model.Region) Option {
	return func(s *settings) error {
		if region != model.UnitedStates && region != model.Canada {
			return fmt.Errorf("dispensarytest: WithRegion(%q): the platform has %q and %q", region, model.UnitedStates, model.Canada)
		}
		s.region = region
		return nil
	}
}

// WithScopes sets the application's scopes; the default is every scope of the
// API. catalog:read belongs to every application. API section:
// "Authentication" 7.
func WithScopes(scopes ...string) Option {
	return func(s *settings) error {
		s.scopes = operations.MergeScopes([]string{operations.ScopeCatalog}, scopes)
		return operations.CheckScopes(scopes)
	}
}

// WithSeed sets where ids and data come from; the same seed makes the same
// world. Tokens and codes are random all the same, so that one platform's are
// never good on another.
func WithSeed(seed uint64) Option {
	return func(s *settings) error { s.seed = seed; return nil }
}

// WithWorldSize makes a world of that size, which begins with the default one. The
// same seed and size make the same world, id by id. Each clinic has its own users, see
// [Server.Users], and its own categories; every second one is invited to the restricted
// brands.
func WithWorldSize(size model.WorldSize) Option {
	return func(s *settings) error {
		if min(size.Clinics, size.Patients, size.Products, size.Plans, size.Orders) < 0 {
			return errors.New("dispensarytest: WithWorldSize: a negative number")
		}
		s.size = size
		return nil
	}
}

// WithSnapshot starts a platform from a snapshot, in place of a world of seed and
// size. Tokens of the snapshot are good, and deliveries that are still due are
// made. Without [WithClock] the clock stands where the snapshot's stood, or is as
// far ahead.
func WithSnapshot(snap *Snapshot) Option {
	return func(s *settings) (err error) {
		if snap == nil {
			return errors.New("dispensarytest: WithSnapshot: no snapshot")
		}
		from := snap.state
		s.snapshot, s.seed, s.region, s.scopes = snap, from.Seed, from.Region, from.Tokens.Scopes
		s.rules, err = from.reads()
		return err
	}
}

// WithTLS serves loopback HTTPS with a certificate made in the process, which
// [Server.HTTPClient] trusts; see also [Server.Certificate]. Plain HTTP to the
// same port is rejected. API section: "Errors" 1.
func WithTLS() Option {
	return func(s *settings) error { s.tls = true; return nil }
}

// WithTLSRequired refuses requests that did not come over TLS, as the platform
// does. Use it with [Server.Handler] behind your own TLS server.
// API section: "Errors" 1.
func WithTLSRequired() Option {
	return func(s *settings) error { s.requireTLS = true; return nil }
}

// WithWebhook registers an endpoint from the start, as [Webhooks.Register]
// does.
func WithWebhook(url string, types ...string) Option {
	return func(s *settings) error {
		s.webhook = webhooks.NewEndpoint(url, types)
		return webhooks.CheckEndpoint(url, types)
	}
}
