package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/diagnose"
	"github.com/dispensary-go/dispensary/internal/textfile"
)

// verifyCommand is the command with its flags.
type verifyCommand struct {
	*program
	target
	headers, secret, challenge, received string
}

func newVerifyCommand(p *program) *cobra.Command {
	c := verifyCommand{program: p}
	command := &cobra.Command{
		Use:   "verify FILE",
		Short: "Check the signature of a saved delivery, and say what is wrong with it",
		Long: `Verify checks a delivery that was saved against the webhook secrets, offline, and says why it
is refused: another secret, a clock that is off and by how much, or a body that is not the
one that was signed, and what changed it.

FILE is a whole HTTP request, or with --headers the body alone; - is stdin. The secrets are
those of the configuration, or that in --secret-file. Exit code 1 says that it is refused.`,
		Example: `  dispensary verify delivery.http --received 2026-03-02T09:00:00Z
  dispensary verify body.json --headers headers.txt
  dispensary verify delivery.http --secret-file /run/secrets/webhook --json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("verify wants the name of one file")
			}
			return nil
		},
		RunE: func(command *cobra.Command, args []string) error { return c.run(command.Context(), args[0]) },
	}
	flags := command.Flags()
	c.define(flags)
	flags.StringVar(&c.headers, "headers", "", "read the headers from `FILE`, lines of the form Name: value")
	flags.StringVar(&c.received, "received", "", "the `TIME` at which it arrived (RFC 3339); now unless set")
	flags.StringVar(&c.secret, "secret-file", "", "take the secret in `FILE`, and not those of the configuration")
	flags.StringVar(&c.challenge, "challenge-file", "", "the challenge token is in `FILE`; to notice that the two are swapped")
	return command
}

// run prints what was found.
func (c *verifyCommand) run(ctx context.Context, name string) error {
	config, err := c.diagnoseConfig()
	if err != nil {
		return err
	}
	delivery, err := c.savedDelivery(ctx, name)
	if err != nil {
		return err
	}
	r, err := diagnose.Check(delivery, config)
	if err != nil {
		return err
	}
	document := struct {
		Valid      bool            `json:"valid"`
		Reason     diagnose.Reason `json:"reason"`
		Detail     string          `json:"detail"`
		SignedAt   time.Time       `json:"signed_at,omitzero"`
		AgeSeconds float64         `json:"age_seconds"`
	}{r.Reason == diagnose.ReasonValid, r.Reason, r.Detail, r.SignedAt, r.Age.Seconds()}
	verdict := green
	if !document.Valid {
		verdict = red
	}
	if c.json {
		err = c.printJSON(document)
	} else if err = c.styled(verdict, string(r.Reason)); err == nil {
		_, err = fmt.Fprintf(c.out, ": %s\n", r.Detail)
	}
	if err == nil && !document.Valid {
		err = failed(errors.New("the delivery is refused"))
	}
	return err
}

// diagnoseConfig gathers the secrets.
func (c *verifyCommand) diagnoseConfig() (made diagnose.Config, err error) {
	if c.received != "" {
		if made.ReceivedAt, err = time.Parse(time.RFC3339, c.received); err != nil {
			return made, errors.New("--received: not a time such as 2026-03-02T09:00:00Z")
		}
	}
	if c.secret != "" {
		secret, err := secretFile("--secret-file", c.secret)
		if err != nil {
			return made, err
		}
		made.Secrets = []dispensary.Secret{secret}
	} else {
		integration, err := c.loadConfig("webhook_secrets")
		if err != nil {
			return made, err
		}
		a, err := c.application(integration, c.target)
		if err != nil {
			return made, fmt.Errorf("%w; or name a file with --secret-file", err)
		}
		made.Secrets, made.Challenge = a.WebhookSecrets, a.WebhookChallenge
		if len(made.Secrets) == 0 {
			return made, errors.New("no webhook secret is configured: set DISPENSARY_US_SANDBOX_WEBHOOK_SECRETS, or name a file with --secret-file")
		}
	}
	if c.challenge != "" {
		made.Challenge, err = secretFile("--challenge-file", c.challenge)
	}
	return made, err
}

// savedDelivery reads the delivery.
func (c *verifyCommand) savedDelivery(ctx context.Context, name string) (diagnose.Delivery, error) {
	content, err := c.readFile(ctx, name)
	if err != nil {
		return diagnose.Delivery{}, err
	}
	if c.headers == "" {
		delivery, err := diagnose.Parse(content)
		if err != nil {
			err = fmt.Errorf("%s: %w; for a body alone, add --headers", name, err)
		}
		return delivery, err
	}
	headers, err := os.ReadFile(c.headers)
	if err != nil {
		return diagnose.Delivery{}, fmt.Errorf("--headers: %w", err)
	}
	if headers, err = textfile.Decode(headers); err != nil {
		return diagnose.Delivery{}, fmt.Errorf("--headers %s: the file %w", c.headers, err)
	}
	delivery, err := diagnose.ParseParts(headers, content)
	if err != nil {
		err = fmt.Errorf("--headers %s: %w", c.headers, err)
	}
	return delivery, err
}
