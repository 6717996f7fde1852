package browser

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/console"
	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/control"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
)

var update = flag.Bool("update", false, "write docs/screenshots")

// chromium is the browser of all tests, or nil if none is installed. Each test has its own
// profile.
var chromium context.Context

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(withChromium(m.Run))
}

// withChromium starts the browser, if one is installed, and runs the tests.
func withChromium(run func() int) int {
	program := installed()
	if program == "" {
		return run()
	}
	started, end := chromedp.NewExecAllocator(context.Background(), options(program)...)
	defer end()
	first, leave := chromedp.NewContext(started)
	defer leave()
	if err := chromedp.Do(first); err != nil {
		fmt.Fprintln(os.Stderr, program, "did not start:", err)
		return 1
	}
	chromium = first
	return run()
}

// installed returns the path of the browser, or "" if none is installed. It prefers the headless
// shell, which needs fewer resources.
func installed() string {
	for _, name := range []string{"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if program, err := exec.LookPath(name); err == nil {
			return program
		}
	}
	return ""
}

// options returns the options for a browser with a new profile. The browser connects only to the
// pages of the tests.
func options(program string) []chromedp.ExecAllocatorOption {
	return append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]),
		chromedp.ExecPath(program), chromedp.DisableGPU,
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-quic", true), chromedp.Flag("no-proxy-server", true),
	)
}

// fixture is a fake platform with its console, and an application with a redirect URI and a
// webhook endpoint.
type fixture struct {
	t       *testing.T
	fake    *dispensarytest.Server
	console string // URL with a final slash
	back    chan url.Values
	status  atomic.Int64 // response status of the webhook endpoint
}

// newFixture starts all servers on free ports of this machine, with a frozen clock.
func newFixture(t *testing.T, options ...dispensarytest.Option) *fixture {
	t.Helper()
	s := &fixture{t: t, back: make(chan url.Values, 10)}
	s.status.Store(http.StatusOK)
	app := httptest.NewServer(s.app())
	t.Cleanup(app.Close)
	s.fake = dispensarytest.New(t, append([]dispensarytest.Option{
		dispensarytest.WithClock(dispensarytest.FrozenClock(time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC))),
		dispensarytest.WithRedirectURI(app.URL + "/callback"), dispensarytest.WithTuning(dispensarytest.Tuning{Bodies: true}), dispensarytest.WithBehavior(behavior.DeliveryConditionsOff, behavior.IntegrationActivationFromTheStart),
		dispensarytest.WithBehavior(behavior.DeliveryTimeout5s), // tolerate a busy machine
	}, options...)...)
	require.NoError(t, s.fake.Host("https://ehr.example.com", s.app()))
	require.NoError(t, s.fake.Webhooks.Register("https://ehr.example.com/webhooks"))
	mux := http.NewServeMux()
	beside := httptest.NewServer(mux)
	t.Cleanup(beside.Close)
	s.console = beside.URL + "/console/"
	api := control.New(s.fake, control.Options{ControlURL: beside.URL + "/control", ConsoleURL: s.console})
	mux.Handle("/control/", http.StripPrefix("/control", api))
	mux.Handle("/console/", http.StripPrefix("/console", console.New(s.fake, api)))
	return s
}

// app returns the handler of the application.
func (s *fixture) app() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /callback", func(w http.ResponseWriter, r *http.Request) {
		s.back <- r.URL.Query()
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, `<!doctype html><html lang="en"><link rel="icon" href="data:,"><title>Example EHR</title><h1>Welcome back</h1>`)
	})
	mux.HandleFunc("POST /webhooks", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(int(s.status.Load()))
		_, _ = io.WriteString(w, `{"challenge":"`+s.fake.Application().ChallengeToken+`"}`)
	})
	return mux
}

// client returns the application's client for its first user.
func (s *fixture) client() *dispensary.Client { return s.fake.Client(s.fake.Users()[0]) }

// authorize returns the URL of the authorization page.
func (s *fixture) authorize() string {
	app := s.fake.Application()
	query := url.Values{"client_id": {app.ClientID}, "redirect_uri": {app.RedirectURI}, "response_type": {"code"}, "state": {"s-1"}}
	return s.fake.Site().AuthURL + "/oauth/authorize?" + query.Encode()
}

// cameBack returns the query of the redirect to the application.
func (s *fixture) cameBack() url.Values {
	s.t.Helper()
	select {
	case query := <-s.back:
		return query
	case <-time.After(patience):
		require.FailNow(s.t, "the browser did not return to the application")
		return nil
	}
}
