package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// fixture is a machine with the environment variables of an application on a fake platform.
type fixture struct {
	t         *testing.T
	platform  *dispensarytest.Server
	variables map[string]string
	folder    string // the user's configuration folder
	terminal  bool
	columns   int // 0 is the default
	asks      bool
}

// newFixture starts a fake platform on a socket. The port of the redirect URL is free.
func newFixture(t *testing.T, options ...dispensarytest.Option) *fixture {
	t.Helper()
	redirect := "http://" + freeAddress(t) + "/callback"
	platform := dispensarytest.New(t, append([]dispensarytest.Option{
		dispensarytest.WithTuning(dispensarytest.Tuning{Addr: "127.0.0.1:0", DeliveryTimeout: time.Minute}), dispensarytest.WithRedirectURI(redirect),
		dispensarytest.WithBehavior(behavior.DeliveryConditionsOff, behavior.IntegrationActivationFromTheStart),
	}, options...)...)
	app := platform.Application()
	return &fixture{t: t, platform: platform, folder: t.TempDir(), variables: map[string]string{
		"DISPENSARY_US_SANDBOX_BASE_URL": platform.Site().BaseURL, "DISPENSARY_US_SANDBOX_AUTH_URL": platform.Site().AuthURL,
		"DISPENSARY_US_SANDBOX_CLIENT_ID": app.ClientID, "DISPENSARY_US_SANDBOX_CLIENT_SECRET": app.ClientSecret,
		"DISPENSARY_US_SANDBOX_REDIRECT_URL": redirect, "DISPENSARY_US_SANDBOX_CLINIC_KEY": platform.ClinicKey(),
	}}
}

// bare returns a machine without an application: no variables, no input and an empty folder.
func bare(t *testing.T) *fixture {
	t.Helper()
	return &fixture{t: t, folder: t.TempDir()}
}

// takeAddress listens on an address until the end of the test.
func takeAddress(t *testing.T, address string) string {
	t.Helper()
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = taken.Close() })
	return taken.Addr().String()
}

// freeAddress tries these ports one after the other, starting with a random one. Operating systems
// do not assign them to a listener with port 0, so no such listener takes a port that was freed.
const firstPort, ports = 20_000, 12_000

var (
	anyPort = rand.Uint32N(ports)
	tried   atomic.Uint32
)

// freeAddress returns a loopback address without a listener.
func freeAddress(t *testing.T) string {
	t.Helper()
	for range ports {
		free, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", firstPort+(anyPort+tried.Add(1))%ports))
		if err == nil {
			require.NoError(t, free.Close())
			return free.Addr().String()
		}
	}
	require.FailNow(t, "no port is free")
	return ""
}

// withToken sets DISPENSARY_ACCESS_TOKEN to a new token.
func (f *fixture) withToken(scopes ...string) *fixture {
	f.variables["DISPENSARY_ACCESS_TOKEN"] = f.platform.Tokens.Issue(model.User{}, scopes...).AccessToken
	return f
}

// noKeyring is the keyring of a machine without a keyring.
type noKeyring struct{}

func (noKeyring) Get(string, string) (string, error) { return "", errors.New("there is no keyring") }
func (noKeyring) Set(string, string, string) error   { return errors.New("there is no keyring") }

// environment returns variables as os.Environ does.
func environment(variables map[string]string) (all []string) {
	for name, value := range variables {
		all = append(all, name+"="+value)
	}
	return all
}

func (f *fixture) program(stdin io.Reader, stdout, stderr io.Writer) *program {
	return &program{
		columns: cmp.Or(f.columns, maxColumns),
		in:      stdin, out: stdout, errOut: stderr, terminal: f.terminal, asks: f.asks, keyring: noKeyring{},
		surroundings: surroundings{environ: environment(f.variables), configDir: func() (string, error) { return f.folder, nil }},
		cacheDir:     func() (string, error) { return filepath.Join(f.folder, "cache"), nil },
	}
}

func (f *fixture) run(args ...string) (code int, stdout, stderr string) {
	f.t.Helper()
	return f.runWith(f.t.Context(), "", args...)
}

func (f *fixture) runWith(ctx context.Context, stdin string, args ...string) (code int, stdout, stderr string) {
	f.t.Helper()
	var out, err bytes.Buffer
	code = f.program(strings.NewReader(stdin), &out, &err).run(ctx, args)
	return code, out.String(), err.String()
}

// running is a running command.
type running struct {
	t           *testing.T
	out, errOut *output
	stop        context.CancelFunc
	code        chan int
}

// start starts a command that ends with the test, if not earlier.
func (f *fixture) start(stdin io.Reader, args ...string) *running {
	f.t.Helper()
	ctx, stop := context.WithCancel(f.t.Context())
	r := &running{f.t, newOutput(), newOutput(), stop, make(chan int, 1)}
	go func() { r.code <- f.program(stdin, r.out, r.errOut).run(ctx, args) }()
	return r
}

// end ends the command like Ctrl-C, and requires an exit code.
func (r *running) end(code int) {
	r.t.Helper()
	r.stop()
	require.Equal(r.t, code, <-r.code, "%s", r.errOut)
}

// ran runs a command that must succeed.
func (f *fixture) ran(args ...string) (stdout, stderr string) {
	f.t.Helper()
	code, stdout, stderr := f.run(args...)
	require.Equal(f.t, exitDone, code, "%s: %s", args, stderr)
	return stdout, stderr
}

// fails runs a command that must fail with exit code 1.
func (f *fixture) fails(want string, args ...string) {
	f.t.Helper()
	code, _, stderr := f.run(args...)
	require.Equal(f.t, exitFailed, code, "%s: %s", args, stderr)
	require.Contains(f.t, stderr, want)
}

// rejected runs a command that must fail with exit code 2, one line on stderr and an empty stdout.
func (f *fixture) rejected(want string, args ...string) (stderr string) {
	f.t.Helper()
	code, out, stderr := f.run(args...)
	require.Equal(f.t, exitReject, code, "%s: %s", args, stderr)
	require.Empty(f.t, out)
	require.Contains(f.t, stderr, want)
	require.Equal(f.t, 1, strings.Count(stderr, "\n"), "stderr must be one line: %s", stderr)
	return stderr
}

// output collects the output of a running command.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
	news chan struct{}
}

func newOutput() *output { return &output{news: make(chan struct{}, 1)} }

// Write implements [io.Writer].
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, err := o.text.Write(p)
	select {
	case o.news <- struct{}{}:
	default:
	}
	return n, err
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// after waits for a text and returns the rest of its line.
func (o *output) after(t *testing.T, text string) string {
	t.Helper()
	for {
		if _, rest, found := strings.Cut(o.String(), text); found {
			line, _, _ := strings.Cut(rest, "\n")
			return strings.TrimSpace(line)
		}
		select {
		case <-o.news:
		case <-t.Context().Done():
			require.Fail(t, "the command did not print: "+text, o.String())
		}
	}
}
