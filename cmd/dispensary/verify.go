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
	"github.com/dispensary-go/dispensary/internal/environ"
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
		Short: "Verify the signature of a saved delivery",
		Long: `Verify checks a saved delivery against the webhook secrets and prints the reason if it is
rejected: a different secret, a clock difference and its size, or a changed body and the likely
change. It sends no request and changes nothing.

FILE is a complete HTTP request, or with --headers only the body; - is stdin. The secrets are those
of the configuration, or the secret in --secret-file.

Exit codes: 0 if the delivery is valid. 1 if it is rejected. 2 if an input is missing or invalid.`,
		Example: `  dispensary verify delivery.http --received 2026-03-02T09:00:00Z
  dispensary verify body.json --headers headers.txt
  dispensary verify delivery.http --secret-file /run/secrets/webhook --json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("verify needs the name of one file, or - for stdin")
			}
			return nil
		},
		RunE: func(command *cobra.Command, args []string) error { return c.run(command.Context(), args[0]) },
	}
	flags := command.Flags()
	c.define(flags)
	flags.StringVar(&c.headers, "headers", "", "read the headers from `FILE`, with lines of the form Name: value")
	flags.StringVar(&c.received, "received", "", "`TIME` of arrival in RFC 3339 (default: now)")
	flags.StringVar(&c.secret, "secret-file", "", "read the secret from `FILE` instead of the configuration")
	flags.StringVar(&c.challenge, "challenge-file", "", "read the challenge token from `FILE`, to detect a swap with the secret")
	return command
}

// run checks the delivery and prints the reason.
func (c *verifyCommand) run(ctx context.Context, name string) error {
	delivery, err := c.savedDelivery(ctx, name)
	if err != nil {
		return err
	}
	config, err := c.diagnoseConfig()
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
		err = failed(errors.New("the delivery is rejected"))
	}
	return err
}

// diagnoseConfig returns the secrets and the time of arrival.
func (c *verifyCommand) diagnoseConfig() (made diagnose.Config, err error) {
	if c.received != "" {
		if made.ReceivedAt, err = time.Parse(time.RFC3339, c.received); err != nil {
			return made, errors.New("--received must be a time such as 2026-03-02T09:00:00Z")
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
			return made, fmt.Errorf("use --secret-file: %w", err)
		}
		made.Secrets, made.Challenge = a.WebhookSecrets, a.WebhookChallenge
		if len(made.Secrets) == 0 {
			return made, errors.New("use --secret-file, or set DISPENSARY_US_SANDBOX_WEBHOOK_SECRETS: no webhook secret is configured")
		}
	}
	if c.challenge != "" {
		made.Challenge, err = secretFile("--challenge-file", c.challenge)
	}
	return made, err
}

// savedDelivery reads the delivery from a file.
func (c *verifyCommand) savedDelivery(ctx context.Context, name string) (diagnose.Delivery, error) {
	content, err := c.readFile(ctx, name)
	if err != nil {
		return diagnose.Delivery{}, err
	}
	if c.headers == "" {
		delivery, err := diagnose.Parse(content)
		if err != nil {
			err = fmt.Errorf("%s: %w; if the file contains only a body, add --headers", name, err)
		}
		return delivery, err
	}
	headers, err := os.ReadFile(c.headers)
	if err != nil {
		return diagnose.Delivery{}, fmt.Errorf("--headers: %w", err)
	}
	if headers, err = environ.DecodeText(headers); err != nil {
		return diagnose.Delivery{}, fmt.Errorf("--headers %s: the file %w", c.headers, err)
	}
	delivery, err := diagnose.ParseParts(headers, content)
	if err != nil {
		err = fmt.Errorf("--headers %s: %w", c.headers, err)
	}
	return delivery, err
}
