package receivercheck

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest"
)

// checker checks one endpoint.
type checker struct {
	*endpoint
	srv     *dispensarytest.Server // creates the samples and hosts Handler on its network
	hosted  *http.Client           // client for the network of srv
	samples samples

	found   []string // findings of the running case
	skipped string   // reason why the running case skipped itself

	halted          string         // reason why only reviewing cases run
	slowness        string         // finding about a receiver that is too slow for every case
	expectedHandled map[string]int // maximum number of handlings by event ID
}

// testCase tests one requirement on an endpoint.
type testCase struct {
	name  string       // as in [Verdict]
	needs *requirement // nil if the case needs no optional field
	run   func(*checker)

	// reviews means that the case sends no request and reviews the exchanges of the other
	// cases.
	reviews bool

	// consequence is the effect of the mistake in production, and fix is its correction.
	consequence, fix string
}

// receiverOrigin is the origin of Handler on the in-memory network.
const receiverOrigin = "https://receiver.dispensary.test"

// newChecker returns a checker that has not sent any request yet.
func newChecker(ctx context.Context, target Target) (*checker, error) {
	target, err := target.withDefaults()
	if err != nil {
		return nil, err
	}
	srv, err := dispensarytest.Start(dispensarytest.WithInMemory(), dispensarytest.WithTuning(dispensarytest.Tuning{Seed: rand.Uint64(), Integrations: 2}))
	if err != nil {
		return nil, err
	}
	c := &checker{
		endpoint: &endpoint{Target: target, ctx: ctx, client: withoutRedirects(target.Client), url: target.URL},
		srv:      srv, hosted: withoutRedirects(srv.HTTPClient()), expectedHandled: make(map[string]int),
	}
	if target.Handler != nil {
		c.watch = &watchedHandler{handler: target.Handler}
		c.client, c.url = c.hosted, receiverOrigin+target.Path
		err = srv.Host(receiverOrigin, c.watch)
	}
	if err == nil {
		c.samples, err = collectSamples(srv)
	}
	if err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func withoutRedirects(client *http.Client) *http.Client {
	copied := *client
	copied.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &copied
}

func (c *checker) close() { _ = c.srv.Close() } // an in-memory server has no listener to fail

// run runs a case and returns its verdict.
func (c *checker) run(tc testCase) Verdict {
	v := Verdict{Case: tc.name, Consequence: tc.consequence, Fix: tc.fix}
	reason := cmp.Or(c.unreachable, c.missing(tc.needs))
	if !tc.reviews {
		reason = cmp.Or(c.unreachable, c.halted, reason)
	}
	if v.Skipped = reason; reason != "" {
		if reason == c.missing(tc.needs) {
			v.Needs = tc.needs.field
		}
		return v
	}
	c.current, c.found, c.skipped = v.Case, nil, ""
	tc.run(c)
	if c.dialFailed && c.unreachable == "" {
		c.unreachable = fmt.Sprintf("no server has listened at %s since %s", c.url, v.Case)
	}
	v.Findings, v.Skipped = c.found, c.skipped
	if !v.Failed() && !tc.reviews {
		v.Skipped = c.halted
	}
	return v
}

// waitUntil polls until done returns true or Timing.Patience has passed. It reports whether done
// returned true.
func (c *checker) waitUntil(done func() bool) bool {
	ctx, cancel := context.WithTimeout(c.ctx, c.Timing.Patience)
	defer cancel()
	for !done() {
		select {
		case <-time.After(2 * time.Millisecond):
		case <-ctx.Done():
			return done()
		}
	}
	return true
}
