package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dispensary-go/dispensary/dispensarytest/receivercheck"
	"github.com/dispensary-go/dispensary/integration"
	"github.com/dispensary-go/dispensary/integration/doctor"
)

// checkCommand is the command with its flags.
type checkCommand struct {
	*program
	target
	secret, challenge         secretSource
	cases, junit              string
	hooks, log, withoutSecret string
	checked                   receivercheck.Target // with the fields set by flags
}

// secretSource contains the flags of a secret in an environment variable or a file.
type secretSource struct{ flag, variable, file string }

// checkArguments maps fields of [receivercheck.Target] to arguments.
var checkArguments = map[string]string{
	"receivercheck.Target.Cases":           "--run",
	"receivercheck.Target.Hooks.EventType": "--event-type",
	"receivercheck.Target.Secret":          "the webhook secret",
	"receivercheck.Target.Timing":          "one of --tolerance, --timeout, --patience and --body-timeout",
	"receivercheck.Target.URL":             "URL",
}

func newCheckCommand(p *program) *cobra.Command {
	c := checkCommand{program: p, secret: secretSource{flag: "secret"}, challenge: secretSource{flag: "challenge"}}
	command := &cobra.Command{
		Use:   "check URL",
		Short: "Test a webhook endpoint in any language",
		Long: `Check sends requests of the platform and of an attacker to a running endpoint: wrong, stale and
rotated signatures, large, slow and malformed bodies, duplicates, events out of order, unknown
types and probes. Each failure shows the finding, its consequence in production and a fix. Check
needs no platform and no configuration.

The endpoint stores the signed events of an invented clinic: use a test database. The webhook
secret and the challenge token come from a variable, a file or the configuration. During a
rotation, append the old secret to the new one, separated by a space.

Some cases need hooks of the endpoint's test build, below the URL of --hooks. If a hook responds
with 404, its cases are skipped. All other hooks must respond with 200 or 204:

  GET  /handled?event_id=ID    respond with the number of handlings of the event
  POST /block_handler?on=BOOL  block the code that handles events until on=false
  POST /break_storage?on=BOOL  let the code that stores events fail until on=false

At the start, check calls each hook once, with on=false or an unknown event.

Exit codes: 0 if no case fails. 1 if a case or a hook fails. 2 if it sent no request.`,
		Example: `  dispensary check http://localhost:3000/webhooks --secret-env SECRET --challenge-env CHALLENGE
  dispensary check http://localhost:3000/webhooks --secret-file secret --challenge-file token --run Bodies
  dispensary check http://localhost:3000/webhooks --profile test --json --junit report.xml
  dispensary check http://localhost:3000/webhooks --hooks http://localhost:3000/hooks --log server.log`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("check needs the URL of one endpoint, such as http://localhost:3000/webhooks")
			}
			return nil
		},
		RunE: func(command *cobra.Command, args []string) error { return c.run(command.Context(), args[0]) },
	}
	c.defineFlags(command)
	return command
}

func (c *checkCommand) defineFlags(command *cobra.Command) {
	flags := command.Flags()
	c.define(flags)
	flags.StringVar(&c.secret.variable, "secret-env", "", "read the webhook secret from the environment variable `NAME` instead of the configuration")
	flags.StringVar(&c.secret.file, "secret-file", "", "read the webhook secret from `FILE` instead of the configuration")
	flags.StringVar(&c.challenge.variable, "challenge-env", "", "read the challenge token from the environment variable `NAME` instead of the configuration")
	flags.StringVar(&c.challenge.file, "challenge-file", "", "read the challenge token from `FILE` instead of the configuration")
	flags.StringVar(&c.cases, "run", "", "run Signature/Valid, and only other cases with names matching the regular expression `PATTERN`")
	flags.StringVar(&c.junit, "junit", "", "also write a JUnit report to `FILE`")
	flags.StringVar(&c.hooks, "hooks", "", "call the hooks below `URL`")
	flags.StringVar(&c.log, "log", "", "search `FILE`, the log of the endpoint, for secrets and patient data")
	flags.StringVar(&c.withoutSecret, "without-secret", "", "`URL` of the endpoint in a process without a secret, which must reject all events")
	t := &c.checked
	flags.StringVar(&t.Hooks.EventType, "event-type", "order.placed", "`TYPE` of the events that the hook handled counts")
	flags.BoolVar(&t.Features.UnsignedProbe, "unsigned-probe", false, "expect the challenge token in response to an empty body without a signature")
	flags.BoolVar(&t.Features.OtherEnvelopes, "other-envelopes", false, "expect the endpoint to accept an event in event_payload or without a wrapper")
	flags.DurationVar(&t.Timing.Tolerance, "tolerance", 5*time.Minute, "longest `TIME` between an accepted signature and the clock of the endpoint")
	flags.DurationVar(&t.Timing.Timeout, "timeout", 2*time.Second, "`TIME` that the platform waits for a response")
	flags.DurationVar(&t.Timing.Patience, "patience", 10*time.Second, "longest `TIME` until the endpoint handles an event")
	flags.DurationVar(&t.Timing.BodyTimeout, "body-timeout", 0, "`TIME` that the server waits for a body; one case waits as long (default: skip this case)")
}

// run checks the endpoint and prints the verdicts.
func (c *checkCommand) run(ctx context.Context, url string) error {
	if _, ok := httpURL(url); !ok {
		return fmt.Errorf("%s is not a URL such as http://localhost:3000/webhooks", url)
	}
	t := c.checked
	t.URL, t.Client = url, http.DefaultClient
	hooks, err := c.complete(ctx, &t)
	if err != nil {
		return err
	}
	verdicts, err := receivercheck.Examine(ctx, t)
	switch {
	case err != nil:
		return asFlags(err, checkArguments)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case hooks.err != nil:
		return hooks.err
	case !c.sent.Load(): // no connection, which the first case reports
		return fmt.Errorf("%s: %s", url, verdicts[0].Findings[0])
	}
	report := doctor.Report{Environment: url, Rows: checkRows(verdicts, math.MaxInt)}
	document := struct {
		URL  string       `json:"url"`
		Rows []doctor.Row `json:"rows"`
	}{url, report.Rows}
	printed := report
	if c.terminal {
		printed.Rows = checkRows(verdicts, 2) // the cause of the first failure is the second finding
	}
	if err := c.printReport(document, printed); err != nil {
		return err
	}
	if c.junit != "" {
		if err := os.WriteFile(c.junit, junitReport(report), 0o644); err != nil {
			return fmt.Errorf("--junit: %w", err)
		}
	}
	return checksFailed(report)
}

// complete sets the fields of t from files, variables and requests.
func (c *checkCommand) complete(ctx context.Context, t *receivercheck.Target) (*hookClient, error) {
	var err error
	if c.cases != "" {
		if t.Cases, err = regexp.Compile(c.cases); err != nil {
			return nil, fmt.Errorf("--run: %w", err)
		}
	}
	if err := c.setSecrets(t); err != nil {
		return nil, err
	}
	if c.log != "" {
		if _, err := os.ReadFile(c.log); err != nil {
			return nil, fmt.Errorf("--log: %w", err)
		}
		t.Hooks.Logs = func() string { content, _ := os.ReadFile(c.log); return string(content) }
	}
	if c.withoutSecret != "" {
		if t.Hooks.WithoutSecret, err = forwardTo(c.withoutSecret); err != nil {
			return nil, fmt.Errorf("--without-secret: %w", err)
		}
	}
	hooks := &hookClient{ctx: context.WithoutCancel(ctx), url: strings.TrimSuffix(c.hooks, "/")}
	if c.hooks != "" {
		if err := hooks.offer(&t.Hooks); err != nil {
			return nil, err
		}
	}
	return hooks, nil
}

// setSecrets reads the secrets from their sources, or from the configuration.
func (c *checkCommand) setSecrets(t *receivercheck.Target) error {
	secret, err := c.secret.read(c.program)
	if err != nil {
		return err
	}
	challenge, err := c.challenge.read(c.program)
	if err != nil {
		return err
	}
	secrets := strings.Fields(secret)
	if len(secrets) == 0 || challenge == "" {
		a, err := c.configuredWebhook()
		if err != nil {
			return err
		}
		if len(secrets) == 0 {
			for _, configured := range a.WebhookSecrets {
				secrets = append(secrets, configured.Reveal())
			}
		}
		challenge = cmp.Or(challenge, a.WebhookChallenge.Reveal())
	}
	t.Secret, t.Challenge = secrets[0], challenge
	if len(secrets) > 1 {
		t.Features.OldSecret = secrets[1]
	}
	return nil
}

// configuredWebhook returns the configured application. It fails if the application has no webhook
// secret or no challenge token.
func (c *checkCommand) configuredWebhook() (integration.Application, error) {
	settings, err := c.loadConfig("webhook_secrets", "webhook_challenge")
	if err != nil {
		return integration.Application{}, err
	}
	a, err := c.application(settings, c.target)
	if err == nil {
		err = c.allowWriting(a.Site.Environment)
	}
	if err == nil && (len(a.WebhookSecrets) == 0 || a.WebhookChallenge.IsZero()) {
		err = fmt.Errorf("no webhook secret and challenge token are configured for %s", a.Site.Environment)
	}
	if err != nil {
		err = fmt.Errorf("use --secret-env or --secret-file, and --challenge-env or --challenge-file: %w", err)
	}
	return a, err
}

// read returns the secret, or "" if no flag names one.
func (s secretSource) read(p *program) (string, error) {
	switch {
	case s.variable != "" && s.file != "":
		return "", fmt.Errorf("--%s-env and --%s-file: use only one", s.flag, s.flag)
	case s.file != "":
		secret, err := secretFile("--"+s.flag+"-file", s.file)
		return secret.Reveal(), err
	case s.variable == "":
		return "", nil
	}
	text := p.lookup(s.variable)
	if text = strings.TrimSpace(text); text == "" {
		return "", fmt.Errorf("--%s-env: %s is not set", s.flag, s.variable)
	}
	return text, nil
}

// hookClient calls the hooks of an endpoint below url.
type hookClient struct {
	ctx context.Context // never canceled, so that blocked handlers are always released
	url string
	err error // the first error, which makes the verdicts worthless
}

var errNoHook = errors.New("hook does not exist")

// offer calls each hook, and sets those in hooks that the endpoint has.
func (h *hookClient) offer(hooks *receivercheck.Hooks) error {
	if _, err := h.handled("unknown"); err == nil {
		hooks.Handled = func(eventID string) int {
			n, err := h.handled(eventID)
			h.keep(err)
			return n
		}
	} else if !errors.Is(err, errNoHook) {
		return err
	}
	for name, hook := range map[string]*func(bool){"block_handler": &hooks.BlockHandler, "break_storage": &hooks.BreakStorage} {
		call := func(on bool) error {
			_, err := h.call(http.MethodPost, "/"+name+"?on="+strconv.FormatBool(on))
			return err
		}
		if err := call(false); err == nil {
			*hook = func(on bool) { h.keep(call(on)) }
		} else if !errors.Is(err, errNoHook) {
			return err
		}
	}
	return nil
}

func (h *hookClient) keep(err error) {
	if h.err == nil {
		h.err = err
	}
}

// handled returns the number of times that an event was handled.
func (h *hookClient) handled(eventID string) (int, error) {
	text, err := h.call(http.MethodGet, "/handled?event_id="+url.QueryEscape(eventID))
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil {
		return 0, errors.New("--hooks: /handled must respond with a number")
	}
	return n, nil
}

// call calls a hook and returns the response body. It fails with errNoHook after status 404.
func (h *hookClient) call(method, path string) (string, error) {
	name, _, _ := strings.Cut(path, "?")
	ctx, cancel := context.WithTimeout(h.ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, h.url+path, nil)
	if err != nil {
		return "", errors.New("--hooks must be a URL such as http://localhost:3000/hooks")
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", fmt.Errorf("--hooks: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<10))
	switch {
	case err != nil:
		return "", fmt.Errorf("--hooks: %s: %w", name, err)
	case response.StatusCode == http.StatusNotFound:
		return "", errNoHook
	case response.StatusCode != http.StatusOK && response.StatusCode != http.StatusNoContent:
		return "", fmt.Errorf("--hooks: %s must respond with 200 or 204, not %s", name, response.Status)
	}
	return string(text), nil
}

// forwardTo returns a function that returns a proxy for a running endpoint. If the endpoint is
// unreachable, the proxy responds with 502.
func forwardTo(endpoint string) (func() (http.Handler, error), error) {
	to, ok := httpURL(endpoint)
	if !ok {
		return nil, errors.New("must be a URL such as http://localhost:3001/webhooks")
	}
	proxy := &httputil.ReverseProxy{
		Rewrite:      func(r *httputil.ProxyRequest) { r.Out.URL, r.Out.Host = to, "" },
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	return func() (http.Handler, error) { return proxy, nil }, nil
}

// httpURL parses an absolute HTTP URL, and reports whether text is one.
func httpURL(text string) (*url.URL, bool) {
	u, err := url.Parse(text)
	return u, err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
}
