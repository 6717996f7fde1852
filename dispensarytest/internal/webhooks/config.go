package webhooks

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/clock"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/faults"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/memhttp"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/closestmatch"
)

// outside is how webhooks leave the process: through the transport of a client
// that was given, else not at all in memory, else through a new pool.
func (c Config) outside(given http.RoundTripper) http.RoundTripper {
	switch {
	case given != nil:
		return given
	case c.Given != nil:
		return http.DefaultTransport
	case c.InMemory:
		return nil
	}
	return &http.Transport{MaxIdleConnsPerHost: max(c.Parallel, 4)}
}

func CheckEndpoint(address string, types []string) error {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return errors.New("dispensarytest: webhook address: it cannot be read") // it may hold a secret
	case u.User != nil:
		return fmt.Errorf("dispensarytest: webhook address at %s: it names a user; the signature tells who calls", u.Host)
	case u.Host == "" || u.Scheme == "":
		return fmt.Errorf("dispensarytest: webhook address %q is not absolute", address)
	case u.Scheme != "https" && u.Scheme != "http":
		return fmt.Errorf("dispensarytest: webhook address %q: must begin with https://, or on loopback with http://", address)
	case u.Fragment != "":
		return fmt.Errorf("dispensarytest: webhook address %q has a fragment, which is not sent", address)
	case u.Scheme == "http" && !memhttp.IsLoopback(u.Hostname()):
		return fmt.Errorf("dispensarytest: webhook address %q: plain HTTP only on loopback", address)
	}
	for _, t := range types {
		if !slices.Contains(model.EventTypes(), t) {
			return errors.New("dispensarytest: " + closestmatch.Unknown("event type", t, model.EventTypes()))
		}
	}
	return nil
}

// Config is what a sender works with.
type Config struct {
	Store      *store.Store
	Clock      *clock.Clock
	Behaviors  *behavior.Current
	Faults     *faults.Set
	Changes    *clock.Notifier
	Network    *memhttp.Network
	App        model.Application
	Given      *http.Client // nil for one of the sender's
	InMemory   bool
	Parallel   int // attempts at a time; 0 is 1
	EventLimit int
}
