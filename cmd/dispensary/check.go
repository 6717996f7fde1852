package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dispensary-go/dispensary/dispensarytest/receivercheck"
	"github.com/dispensary-go/dispensary/integration"
	"github.com/dispensary-go/dispensary/internal/doctor"
)

// checkCommand is the command with its flags.
type checkCommand struct {
	*program
	target
	secret, challenge         secretSource
	cases, junit              string
	hooks, log, withoutSecret string
	checked                   receivercheck.Target
}

// secretSource is a secret in an environment variable or a file.
type secretSource struct{ flag, variable, file string }

// checkArguments are the arguments that set fields of [receivercheck.Target].
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
		Short: "Run the acceptance test of a webhook endpoint, in any language",
		Long: `Check plays the platform against a running endpoint, and a caller who is not the platform:
wrong, stale and rotated signatures, large, slow and malformed bodies, duplicates, disorder,
unknown types and probes. Each failure shows what was seen, its consequence in production, and
the fix. The exit code is 1 if a case fails. The test needs no platform and no configuration.

It sends signed events of an invented clinic, which the endpoint stores: use a test database.
The webhook secret and the challenge token come from a variable, a file or the configuration.
A second secret behind the first, separated by a space, is the old one during a rotation.

Some cases need hooks of the endpoint's test build, below the URL of --hooks. A hook that
responds with 404 skips its cases. The others respond with 200 or 204:

  GET  /handled?event_id=ID    respond with the number of times that the event was handled
  POST /block_handler?on=BOOL  let the code that handles events wait until on=false
  POST /break_storage?on=BOOL  let the code that stores events fail until on=false

At the start, check calls each hook once, with on=false and an unknown event.`,
		Example: `  dispensary check http://localhost:3000/webhooks --secret-env SECRET --challenge-env CHALLENGE
  dispensary check http://localhost:3000/webhooks --secret-file secret --challenge-file token --run Bodies
  dispensary check http://localhost:3000/webhooks --profile test --json --junit report.xml
  dispensary check http://localhost:3000/webhooks --hooks http://localhost:3000/hooks --log server.log`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("check wants the URL of one endpoint, such as http://localhost:3000/webhooks")
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
	flags.StringVar(&c.secret.variable, "secret-env", "", "take the webhook secret from the variable `NAME`, and not from the configuration")
	flags.StringVar(&c.secret.file, "secret-file", "", "take the webhook secret from `FILE`")
	flags.StringVar(&c.challenge.variable, "challenge-env", "", "take the challenge token from the variable `NAME`, and not from the configuration")
	flags.StringVar(&c.challenge.file, "challenge-file", "", "take the challenge token from `FILE`")
	flags.StringVar(&c.cases, "run", "", "run the cases whose names match the regular expression `PATTERN`, and Signature/Valid")
	flags.StringVar(&c.junit, "junit", "", "also write a JUnit report to `FILE`")
	flags.StringVar(&c.hooks, "hooks", "", "call the hooks below `URL`")
	flags.StringVar(&c.log, "log", "", "search `FILE`, the log of the endpoint, for secrets and patients")
	flags.StringVar(&c.withoutSecret, "without-secret", "", "the `URL` of the endpoint in a process without a secret, which must reject every event")
	t := &c.checked
	flags.StringVar(&t.Hooks.EventType, "event-type", "order.placed", "the hook handled counts events of `TYPE`")
	flags.BoolVar(&t.Features.UnsignedProbe, "unsigned-probe", false, "the endpoint responds to an empty body without a signature with the challenge")
	flags.BoolVar(&t.Features.OtherEnvelopes, "other-envelopes", false, "the endpoint also accepts an event in event_payload, or without a wrapper")
	flags.DurationVar(&t.Timing.Tolerance, "tolerance", 5*time.Minute, "the endpoint accepts signatures up to `TIME` from its clock")
	flags.DurationVar(&t.Timing.Timeout, "timeout", 2*time.Second, "the platform waits `TIME` for a response")
	flags.DurationVar(&t.Timing.Patience, "patience", 10*time.Second, "the endpoint handles an event within `TIME`")
	flags.DurationVar(&t.Timing.BodyTimeout, "body-timeout", 0, "the server waits up to `TIME` for a body, and so does one case")
}

// run prints the verdicts.
func (c *checkCommand) run(ctx context.Context, url string) error {
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
		reason, _, _ := strings.Cut(verdicts[0].Findings[0], " (required:")
		return fmt.Errorf("%s: %s", url, reason)
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

// complete sets the fields of t that need a file, a variable or a request.
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

// configuredWebhook returns the application of the configuration, which must have a webhook
// secret and a challenge token.
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
		err = fmt.Errorf("no webhook secret and challenge token of %s are configured", a.Site.Environment)
	}
	if err != nil {
		err = fmt.Errorf("%w; or name both with --secret-env or --secret-file, and --challenge-env or --challenge-file", err)
	}
	return a, err
}

// read returns the secret, or "" if no flag names one.
func (s secretSource) read(p *program) (string, error) {
	switch {
	case s.variable != "" && s.file != "":
		return "", fmt.Errorf("--%s-env and --%s-file: use one of them", s.flag, s.flag)
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
