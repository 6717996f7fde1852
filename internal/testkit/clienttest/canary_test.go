package clienttest_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/api/observe"
	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/internal/testkit/calltest"
	"github.com/dispensary-go/dispensary/internal/testkit/logtest"
	"github.com/dispensary-go/dispensary/internal/testkit/testsize"
	"github.com/dispensary-go/dispensary/oauth"
)

// canary replaces personal data in responses. The request data are canaries too: names,
// emails, dates of birth, numbers, metadata ids, tokens, the clinic key and the application's
// secret.
const (
	canary       = "c4n4ry"
	canaryNumber = "747474747474"
)

// Every operation runs with every fault and with debug logging. No canary is in the errors and
// the log lines.
func TestErrorsAndLogsHideSecrets(t *testing.T) {
	t.Parallel()
	testsize.SkipUnderRace(t)
	for name := range canaryCalls(t, nil) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newFixture(t)
			for _, f := range faults {
				c.meet(t, name, f)
			}
			require.NotEmpty(t, c.lines)
			c.requireSilent(t)
		})
	}
}

// fixture is a platform behind a wire with faults, and everything printed during the test.
type fixture struct {
	*calltest.Fixture
	wire  *wire
	log   *logtest.Buffer
	lines map[string]string // with the name of their fault
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	s := calltest.NewFixture(t)
	c := &fixture{Fixture: s, log: &logtest.Buffer{}, lines: map[string]string{}}
	c.wire = &wire{base: s.Platform.HTTPClient().Transport, words: map[string]bool{}}
	c.Client = s.Platform.Client(s.Platform.Users()[0],
		dispensary.WithTransport(c.wire),
		dispensary.WithClinicKey(dispensary.NewSecret(s.Platform.ClinicKey())),
		dispensary.WithRetryPolicy(dispensary.RetryPolicy{MaxAttempts: 2, MinWait: time.Nanosecond, MaxWait: time.Nanosecond}),
		dispensary.WithLogger(c.logger()), dispensary.WithObserver(c.observer()))
	return c
}

// observer records everything that an observer receives.
func (c *fixture) observer() observe.Observer {
	note := func(received any) { fmt.Fprintf(c.log, "%+v\n%#v\n", received, received) }
	return observe.Observer{
		CallStart:    func(_ context.Context, call observe.Call) context.Context { note(call); return nil },
		AttemptStart: func(_ context.Context, attempt observe.Attempt) context.Context { note(attempt); return nil },
		AttemptEnd:   func(_ context.Context, result observe.AttemptResult) { note(result) },
		CallEnd:      func(_ context.Context, result observe.CallResult) { note(result) },
	}
}

func (c *fixture) logger() *slog.Logger {
	options := &slog.HandlerOptions{Level: slog.LevelDebug - 100, AddSource: true}
	return slog.New(slog.NewMultiHandler(slog.NewTextHandler(c.log, options), slog.NewJSONHandler(c.log, options)))
}

// meet makes one call with one fault and records the errors and logs.
func (c *fixture) meet(t *testing.T, name string, f fault) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if f.expired {
		ctx, cancel = context.WithDeadline(ctx, time.Unix(1, 0))
		defer cancel()
	}
	c.wire.fault, c.wire.cancel = f.make, cancel
	_, err := canaryCalls(t, c)[name](ctx, c.Fixture)
	if f.make == nil && !f.expired {
		require.NoError(t, err, "%s without a fault", name)
	}
	var out bytes.Buffer
	c.printError(&out, err, 0)
	for _, text := range []string{out.String(), c.log.Take()} {
		for line := range strings.Lines(text) {
			c.lines[line] = f.name
		}
	}
}

// printError prints an error and its wrapped errors in every way.
func (c *fixture) printError(out *bytes.Buffer, err error, depth int) {
	if err == nil || depth > 10 {
		return
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d", "%T"} {
		fmt.Fprintf(out, verb+"\n", err)
		fmt.Fprintf(out, verb+"\n", []any{err, map[string]error{"err": err}, struct{ Err error }{err}})
	}
	fmt.Fprintln(out, fmt.Errorf("wrapped: %w", err))
	data, _ := json.Marshal(err)
	out.Write(append(data, '\n'))
	c.logger().Error("failed", "err", err, slog.Group("group", "err", err))
	switch wrapping := err.(type) { //nolint:errorlint // checks each link by itself
	case interface{ Unwrap() error }:
		c.printError(out, wrapping.Unwrap(), depth+1)
	case interface{ Unwrap() []error }:
		for _, inner := range wrapping.Unwrap() {
			c.printError(out, inner, depth+1)
		}
	}
}

// requireSilent fails if the recorded lines contain a canary.
func (c *fixture) requireSilent(t *testing.T) {
	t.Helper()
	forms := map[string]string{}
	for _, word := range append(slices.Collect(maps.Keys(c.wire.words)), canary, canaryNumber, c.Platform.Application().ClientSecret) {
		for _, form := range disguises(word) {
			forms[form] = word
		}
	}
	// One long text is searched much faster than many short ones.
	text := strings.Join(slices.Collect(maps.Keys(c.lines)), "\n")
	for form, word := range forms {
		if !strings.Contains(text, form) {
			continue
		}
		for line, faultName := range c.lines {
			if at := strings.Index(line, form); at >= 0 {
				t.Errorf("%s: a line contains %q as %q: …%s", faultName, word, form, line[max(0, at-120):min(len(line), at+60)])
				return
			}
		}
	}
}

// disguises returns the possible forms of a word in a text. Short words have no encoded forms,
// which could be part of anything.
func disguises(word string) []string {
	forms := []string{word, url.QueryEscape(word), url.PathEscape(word)}
	if len(word) < 6 {
		return forms
	}
	quoted, _ := json.Marshal(word)
	return append(forms, strings.Trim(string(quoted), `"`),
		hex.EncodeToString([]byte(word)), strings.ToUpper(hex.EncodeToString([]byte(word))),
		strings.TrimRight(base64.StdEncoding.EncodeToString([]byte(word)), "="),
		strings.TrimRight(base64.URLEncoding.EncodeToString([]byte(word)), "="),
		strings.Trim(fmt.Sprint([]byte(word)), "[]"))
}

// canaryCalls returns the calls of the table with the OAuth calls through the fixture's wire,
// and calls without a row.
func canaryCalls(t testing.TB, c *fixture) map[string]calltest.Call {
	table := calltest.All(t)
	delete(table, "oauth.authorize") // sends nothing
	table["oauth.token"] = func(ctx context.Context, s *calltest.Fixture) (any, error) {
		return c.oauth(t).Exchange(ctx, c.code(t), api.WithoutRetries())
	}
	table["oauth.revoke"] = func(ctx context.Context, s *calltest.Fixture) (any, error) {
		token, err := calltest.OAuth(t, s.Platform).Exchange(context.WithoutCancel(ctx), c.code(t))
		require.NoError(t, err)
		return nil, c.oauth(t).Revoke(ctx, token, api.WithoutRetries())
	}
	table["raw"] = func(ctx context.Context, s *calltest.Fixture) (any, error) {
		return s.Client.Do(ctx, dispensary.RawRequest{
			Method: http.MethodPatch, Path: "/clinic/patients/" + s.Patient,
			Query: url.Values{"email": {"raw@example.com"}}, Body: map[string]string{"last_name": "Rawson"},
		})
	}
	table["patients.ensure"] = func(ctx context.Context, s *calltest.Fixture) (any, error) {
		patient, _, err := s.Client.Clinic.Patients.Ensure(ctx, clinic.PatientCreate{
			Email: "ensured@example.com", FirstName: "Ensured", LastName: "Example", Metadata: clinic.Metadata{ID: "ehr-ensured"},
		})
		return patient, err
	}
	return table
}

// oauth returns a client that sends its requests through the fixture's wire.
func (c *fixture) oauth(t testing.TB) *oauth.Client {
	t.Helper()
	app := c.Platform.Application()
	client, err := oauth.New(oauth.Config{
		Site: c.Platform.Site(), Transport: c.wire, Logger: c.logger(),
		ClientID: app.ClientID, ClientSecret: dispensary.NewSecret(app.ClientSecret), RedirectURL: app.RedirectURI,
	})
	require.NoError(t, err)
	return client
}

// code authorizes a user on the authorization page and returns the code.
func (c *fixture) code(t testing.TB) dispensary.Secret {
	t.Helper()
	address, err := calltest.OAuth(t, c.Platform).AuthorizeURL("state")
	require.NoError(t, err)
	back, err := c.Platform.Approve(address, c.Platform.Users()[0])
	require.NoError(t, err)
	return dispensary.NewSecret(back.Query().Get("code"))
}
