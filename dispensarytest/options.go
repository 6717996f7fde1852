package dispensarytest

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/clock"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/memhttp"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/operations"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/rules"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/webhooks"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// Option configures a platform. [New] and [Start] fail with an [*api.ArgumentError] with the
// name of the option if its value is invalid. A nil Option changes nothing.
type Option func(*settings) error

type settings struct {
	rules          rules.Set // for the points that the API leaves open
	addr           string
	seed           uint64
	environment    api.Environment
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
	parallel       int // concurrent deliveries
	size           model.WorldSize
	snapshot       *state
	file           *worldFile
}

// defaultAddr is a free port of the loopback interface.
const defaultAddr = "127.0.0.1:0"

func defaults() settings {
	return settings{
		addr: defaultAddr, seed: store.DefaultSeed, environment: api.USSandbox,
		redirectURI: "http://127.0.0.1/callback", scopes: operations.AllScopes(),
		journalLimit: 10_000, eventLimit: 50_000, integrations: 1, rules: rules.Defaults(),
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
	if set.inMemory && (set.tls || set.addr != defaultAddr) {
		return set, wrong("WithInMemory", "must not be used with WithTLS or Tuning.Addr, because it opens no socket")
	}
	if err := set.buildFile(); err != nil {
		return set, err
	}
	// Both have an https URL, so they reject plain HTTP.
	set.requireTLS = set.requireTLS || set.tls || set.inMemory
	if set.clock == nil && set.snapshot != nil {
		set.clock = set.snapshot.clock()
	}
	if set.clock == nil {
		set.clock = clock.Live()
	}
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
	return store.NewWorld(s.seed, s.environment, s.size)
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
		u, err := url.Parse(uri)
		if err == nil && u.User != nil {
			return wrong("WithRedirectURI", "must not contain a user before "+u.Host)
		}
		if err != nil || u.Host == "" || u.Fragment != "" {
			return wrong("WithRedirectURI", fmt.Sprintf("%q is not an absolute URL without a fragment", uri))
		}
		if u.Scheme != "https" && u.Scheme != "http" {
			return wrong("WithRedirectURI", fmt.Sprintf("%q must begin with https://, or on loopback with http://", uri))
		}
		if u.Scheme == "http" && !memhttp.IsLoopback(u.Hostname()) {
			return wrong("WithRedirectURI", fmt.Sprintf("%q is plain HTTP and not on loopback", uri))
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
		s.snapshot, s.seed, s.environment, s.scopes = from, from.Seed, from.Environment, from.Tokens.Scopes
		s.rules, err = from.reads()
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
