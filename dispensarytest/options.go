package dispensarytest

import (
	"cmp"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/clock"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/memhttp"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/operations"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/rules"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/webhooks"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/worldfile"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/environ"
)

// Option configures a platform. [New] and [Start] fail with an [*api.ArgumentError] with the
// name of the option if its value is invalid. A nil Option changes nothing.
type Option func(*settings) error

type settings struct {
	Tuning                // without DeliveryTimeout, which rules has
	rules       rules.Set // for the points that the API leaves open
	environment api.Environment
	clock       *clock.Clock
	redirectURI string
	scopes      []string
	inMemory    bool
	tls         bool
	webhook     *model.Endpoint
	snapshot    *state
	file        *worldFile
}

// defaultAddr is a free port of the loopback interface.
const defaultAddr = "127.0.0.1:0"

func defaults() settings {
	return settings{
		Tuning:      Tuning{Addr: defaultAddr, Seed: store.DefaultSeed, JournalLimit: 10_000, EventLimit: 50_000, Integrations: 1},
		environment: api.USSandbox, rules: rules.Defaults(),
		redirectURI: "http://127.0.0.1/callback", scopes: operations.AllScopes(),
	}
}

// wrong returns the error of an option with an invalid value.
func wrong(option, reason string) error {
	return &api.ArgumentError{Field: "dispensarytest." + option, Reason: reason}
}

// invalid returns the error of an option whose value fails a check with cause.
func invalid(option string, cause error) error {
	return &api.ArgumentError{
		Field: "dispensarytest." + option, Reason: "is invalid: " + strings.TrimPrefix(cause.Error(), "dispensarytest: "), Err: cause,
	}
}

func configure(opts []Option) (settings, error) {
	set := defaults()
	for _, opt := range opts {
		if opt == nil {
			continue
		}
		if err := opt(&set); err != nil {
			return set, err
		}
	}
	if set.inMemory && (set.tls || set.Addr != defaultAddr) {
		return set, wrong("WithInMemory", "must not be used with WithTLS or Tuning.Addr, because it opens no socket")
	}
	if err := set.buildFile(); err != nil {
		return set, err
	}
	// Both have an https URL, so they reject plain HTTP.
	set.TLSRequired = set.TLSRequired || set.tls || set.inMemory
	if set.clock == nil && set.snapshot != nil {
		set.clock = set.snapshot.clock()
	}
	set.clock = cmp.Or(set.clock, clock.Live())
	return set, nil
}

// world returns the initial world of a platform.
func (s *settings) world() *store.World {
	if s.snapshot != nil {
		return s.snapshot.World.Clone()
	}
	if s.file != nil {
		return s.file.world.Clone()
	}
	return store.NewWorld(s.Seed, s.environment, s.WorldSize)
}

// WithClock sets a clock of [FrozenClock], or the clock of another platform. Nil is the
// default: a live clock for this platform only.
func WithClock(clock *Clock) Option {
	return func(s *settings) error {
		s.clock = nil
		if clock != nil {
			s.clock = clock.clock
		}
		return nil
	}
}

// WithInMemory starts the platform without sockets. [Server.HTTPClient], and a client that
// uses it, call the platform in the same process, with timeouts, cancellation and streaming as
// over a connection. No resolver knows the platform's host name, and only this platform's
// client reaches it. Its scheme is https, and plain HTTP is rejected. The platform blocks only
// on channels and the time package, so it runs inside testing/synctest.
//
// Use [Server.Host] or [Webhooks.RegisterHandler] for your own handlers.
func WithInMemory() Option {
	return func(s *settings) error { s.inMemory = true; return nil }
}

// WithRedirectURI sets the URL to which the application's users return. It must match
// character for character. The default is "http://127.0.0.1/callback".
func WithRedirectURI(uri string) Option {
	return func(s *settings) error {
		if err := memhttp.CheckURL(uri); err != nil {
			return wrong("WithRedirectURI", err.Error())
		}
		s.redirectURI = uri
		return nil
	}
}

// WithEnvironment selects the sandbox. The default is [api.USSandbox]. The two sandboxes do
// not share tokens or data.
func WithEnvironment(sandbox api.Environment) Option {
	return func(s *settings) error {
		if !sandbox.IsSandbox() {
			return wrong("WithEnvironment", fmt.Sprintf("must be %q or %q, not %q", api.USSandbox, api.CanadaSandbox, sandbox))
		}
		s.environment = sandbox
		return nil
	}
}

// WithScopes sets the application's scopes. The default is every scope of the API. Every
// application has catalog:read. API section: "Authentication" 7.
func WithScopes(scopes ...string) Option {
	return func(s *settings) error {
		s.scopes = operations.MergeScopes([]string{operations.ScopeCatalog}, scopes)
		if err := operations.CheckScopes(scopes); err != nil {
			return invalid("WithScopes", err)
		}
		return nil
	}
}

// WithSnapshot starts a platform from the output of [Server.Snapshot], in place of a world of
// seed and size. Tokens of the snapshot are valid, and the platform makes deliveries that are
// still due. Without [WithClock], the clock has the frozen time or the advance of the
// snapshot's clock. Start fails if snapshot is damaged or comes from another version of this
// package.
func WithSnapshot(snapshot []byte) Option {
	from, err := parseSnapshot(snapshot)
	return func(s *settings) error {
		if err != nil {
			return invalid("WithSnapshot", err)
		}
		s.snapshot, s.Seed, s.environment, s.scopes = from, from.Seed, from.Environment, from.Tokens.Scopes
		s.rules, err = from.rules()
		return err
	}
}

// WithTLS serves loopback HTTPS with a certificate that is created in the process.
// [Server.HTTPClient] trusts it. See also [Server.Certificate]. Plain HTTP to the same port is
// rejected. API section: "Errors" 1.
func WithTLS() Option {
	return func(s *settings) error { s.tls = true; return nil }
}

// WithWebhook registers an endpoint from the start, like [Webhooks.Register].
func WithWebhook(url string, types ...string) Option {
	return func(s *settings) error {
		s.webhook = webhooks.NewEndpoint(url, types)
		if err := webhooks.CheckEndpoint(url, types); err != nil {
			return invalid("WithWebhook", err)
		}
		return nil
	}
}

// Tuning contains settings of a platform that few tests need. The zero value of each field
// keeps the default.
type Tuning struct {
	// Addr is the address to listen on, such as "127.0.0.1:8080". The default is a free port
	// of the loopback interface.
	Addr string

	// Seed determines ids and data. Platforms with the same seed have the same world. Tokens
	// and codes are always random, so a token of one platform is never valid on another. The
	// default is 1.
	Seed uint64

	// WorldSize adds records to the default world. The same seed and size give the same world,
	// id by id. Each clinic has its own users, see [Server.Users], and its own categories.
	// Every second clinic is invited to the restricted brands.
	WorldSize model.WorldSize

	// Integrations is the number of integrations of each clinic, at most 100. The platform
	// sends every event once for each, with the same event id and another integration_id.
	// The default is 1. API section: "Webhooks" 6.
	Integrations int

	// ClinicTokens makes the application one from before 2021-08-26. Its tokens represent the
	// clinic, and their resource owner has the type Clinic. API section: "Authentication" 4.
	ClinicTokens bool

	// TLSRequired rejects requests without TLS. Use it with [Server.Handler] behind your own
	// TLS server. [WithTLS] and [WithInMemory] imply it. API section: "Errors" 1.
	TLSRequired bool

	// JournalLimit is the number of requests that the journal stores. It drops the oldest
	// first. The default is 10,000.
	JournalLimit int

	// Bodies stores up to 16 KiB of each request and response body in the journal. See
	// [model.Request]. Bodies of the token endpoint contain no tokens, codes or client secret.
	// The default stores no bodies.
	Bodies bool

	// EventLimit is the number of events that the platform stores, and of deliveries besides
	// those still due. It drops the oldest first, and every event after 30 days. The default
	// is 50,000. The API documents only the 30 days, so the limit is an assumption.
	EventLimit int

	// DeliveryClient sends the webhooks, for example because it trusts a test certificate.
	// The platform's redirect rule and timeout still apply.
	DeliveryClient *http.Client

	// DeliveryTimeout is the longest wait for a response of the webhook endpoint. The
	// default depends on the behavior delivery-timeout: 2 seconds, which is an assumption.
	DeliveryTimeout time.Duration

	// ParallelDeliveries is the number of simultaneous deliveries, at most 1,000, for load
	// tests of a receiver. [Clock.Advance] does not wait for parallel deliveries, so use
	// [Webhooks.WaitDelivered]. The default is 1.
	ParallelDeliveries int
}

// WithTuning changes the settings that are not zero in t, so several options add up. If a
// value is invalid, it fails with an [*api.ArgumentError] with the name of the field.
func WithTuning(t Tuning) Option {
	return func(s *settings) error {
		if err := t.check(); err != nil {
			return err
		}
		set(&s.Addr, t.Addr)
		set(&s.Seed, t.Seed)
		set(&s.WorldSize, t.WorldSize)
		set(&s.Integrations, t.Integrations)
		set(&s.ClinicTokens, t.ClinicTokens)
		set(&s.TLSRequired, t.TLSRequired)
		set(&s.JournalLimit, t.JournalLimit)
		set(&s.Bodies, t.Bodies)
		set(&s.EventLimit, t.EventLimit)
		set(&s.DeliveryClient, t.DeliveryClient)
		set(&s.rules.Timeout, t.DeliveryTimeout)
		set(&s.ParallelDeliveries, t.ParallelDeliveries)
		return nil
	}
}

// set assigns value unless it is zero.
func set[T comparable](to *T, value T) {
	if value != *new(T) {
		*to = value
	}
}

// check returns an error for the first invalid field.
func (t *Tuning) check() error {
	size := t.WorldSize
	if t.Addr != "" {
		if _, _, err := net.SplitHostPort(t.Addr); err != nil {
			return invalid("Tuning.Addr", err)
		}
	}
	switch {
	case min(size.Clinics, size.Patients, size.Products, size.Plans, size.Orders) < 0:
		return wrong("Tuning.WorldSize", "has a negative number")
	case t.Integrations < 0 || t.Integrations > 100:
		return wrong("Tuning.Integrations", fmt.Sprintf("is %d, but must be from 1 to 100", t.Integrations))
	case t.JournalLimit < 0:
		return wrong("Tuning.JournalLimit", "is negative")
	case t.EventLimit < 0:
		return wrong("Tuning.EventLimit", "is negative")
	case t.DeliveryTimeout < 0:
		return wrong("Tuning.DeliveryTimeout", "is negative")
	case t.ParallelDeliveries < 0 || t.ParallelDeliveries > 1000:
		return wrong("Tuning.ParallelDeliveries", fmt.Sprintf("is %d, but must be from 1 to 1000", t.ParallelDeliveries))
	}
	return nil
}

// worldFile is the file of [WithWorldFile].
type worldFile struct {
	name    string
	content []byte
	world   *store.World
}

// WorldFileExample is a file for [WithWorldFile] with all lists, and all fields of a patient of
// the only clinic.
const WorldFileExample = `{
  "clinics":       [{"name": "Two Rivers", "discount": 10}],
  "practitioners": [{"first_name": "Ada", "last_name": "Stone", "email": "ada@ehr.example",
                     "type": "ND", "password": "secret"}],
  "staff":         [{"first_name": "Joan", "last_name": "Reed", "email": "desk@ehr.example"}],
  "patients":      [{"first_name": "Max", "last_name": "Test", "email": "max@example.org",
                     "date_of_birth": "1984-03-12", "gender": "male", "discount": 5,
                     "mobile_number": "+15035550123", "metadata_id": "ehr-1"}],
  "products":      [{"name": "Own Blend", "brand": "Own", "units": 60, "price": "19.99",
                     "unit_of_measure": "capsules", "status": "available"}],
  "plans":         [{"patient": "max@example.org", "practitioner": "ada@ehr.example",
                     "state": "draft", "personal_message": "…", "metadata_id": "plan-1",
                     "products": [{"product": "Own Blend", "units": 2, "refill": true}]}]
}`

// WithWorldFile starts a platform with the clinics, people and plans in a JSON file, in place
// of the default world. The file's products are added to the default catalog. See
// [WorldFileExample].
//
// Each clinic needs a practitioner. If there are several clinics, each person names one by
// "clinic". Ids follow from the seed and the order in the file. The error joins all problems
// of the file, each with its path, such as patients[3].email, and without the value.
// [WithSnapshot] overrides the file.
func WithWorldFile(name string) Option {
	return func(s *settings) error {
		content, err := readText("WithWorldFile", name)
		s.file = &worldFile{name: name, content: content}
		return err
	}
}

// readText reads the file of an option.
func readText(option, name string) ([]byte, error) {
	content, err := os.ReadFile(name)
	if err != nil {
		return nil, invalid(option, err)
	}
	if content, err = environ.DecodeText(content); err != nil {
		return nil, invalid(option, fmt.Errorf("%s: the file %w", name, err))
	}
	return content, nil
}

// buildFile builds the world of the file, once seed and environment are known.
func (s *settings) buildFile() (err error) {
	if s.file == nil {
		return nil
	}
	if s.WorldSize != (model.WorldSize{}) {
		return wrong("WithWorldFile", "sets the size of the world: remove the size option")
	}
	if s.file.world, err = worldfile.Build(s.file.content, s.Seed, s.environment); err != nil {
		return invalid("WithWorldFile", fmt.Errorf("%s: %w", s.file.name, err))
	}
	return nil
}
