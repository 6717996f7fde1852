package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/control"
	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/platform"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/seal"
)

// controlVariable names the control API of the platform that a program runs with.
const controlVariable = "DISPENSARY_CONTROL_URL"

// childGrace is how long the program may take to end when it is asked to.
const childGrace = 10 * time.Second

func (p *program) devCommand() *cobra.Command {
	c := platform.Config{}
	command := &cobra.Command{
		Use:   "dev -- COMMAND [ARGUMENT...]",
		Short: "Run a test platform and your program together",
		Long: `Dev runs a test platform, and your program with the library's environment variables set to
it: addresses, credentials, secrets, a token, and keys and storage in memory where the
environment has none. Either ends with the other, and both end with Ctrl-C.

The flags are those of fake. The program finds the control API in DISPENSARY_CONTROL_URL, as
"dispensary trigger" does. With --json the program's output goes to stderr.`,
		Example: `  dispensary dev -- go run ./cmd/ehr
  dispensary dev --webhook http://127.0.0.1:8080/webhooks/us-sandbox -- npm start
  dispensary dev --redirect-uri http://127.0.0.1:8080/dispensary/callback -- ./ehr
  dispensary dev -- dispensary api GET /clinic`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("dev wants a command to run, behind two dashes")
			}
			return nil
		},
		RunE: func(command *cobra.Command, args []string) error {
			if _, err := exec.LookPath(args[0]); err != nil && !errors.Is(err, exec.ErrDot) {
				return fmt.Errorf("there is no program %q", args[0])
			}
			if err := c.Complete(command.Flags()); err != nil {
				return err
			}
			return p.dev(command.Context(), c, args)
		},
	}
	c.Define(command.Flags())
	return command
}

// dev runs platform and program. The platform outlives the program, which may still call
// it while it ends.
func (p *program) dev(ctx context.Context, c platform.Config, args []string) error {
	platformContext, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	ctx, end := context.WithCancel(ctx)
	defer end()
	type started struct {
		platform *dispensarytest.Server
		settings control.Settings
	}
	ready, ended := make(chan started, 1), make(chan error, 1)
	go func() {
		defer end() // the program ends with the platform
		ended <- fake(platformContext, c, func(platform *dispensarytest.Server, settings control.Settings) error {
			ready <- started{platform, settings}
			return nil
		}, func(string) {})
	}()
	select {
	case err := <-ended:
		return err
	case s := <-ready:
		err := p.runBeside(ctx, s.platform, s.settings, args)
		stop()
		return errors.Join(err, <-ended)
	}
}

// runBeside runs the program until it or ctx ends.
func (p *program) runBeside(ctx context.Context, platform *dispensarytest.Server, settings control.Settings, args []string) error {
	variables, err := p.devVariables(platform, settings)
	if err != nil {
		return err
	}
	command := exec.CommandContext(ctx, args[0], args[1:]...)
	command.Env = append(os.Environ(), variables...)
	command.Stdin, command.Stdout, command.Stderr = p.in, p.out, p.errOut
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.WaitDelay = childGrace
	if p.json {
		command.Stdout = p.errOut
		err = p.printJSON(settings)
	} else {
		_, err = fmt.Fprintf(p.errOut, "A test platform is at %s, its console at %s\nIts control API, for dispensary trigger --control, is at %s\n",
			settings.BaseURL, settings.ConsoleURL, settings.ControlURL)
	}
	if err != nil {
		return err
	}
	err = command.Run()
	var exit *exec.ExitError
	switch {
	case err == nil, ctx.Err() != nil: // it was asked to end
		return nil
	case errors.As(err, &exit):
		return failed(fmt.Errorf("%s ended with %s", args[0], exit.ProcessState))
	}
	return err
}

// devVariables are the variables of a program beside a platform. What the program keeps,
// and the keys for it, are left as they are if they are set.
func (p *program) devVariables(platform *dispensarytest.Server, settings control.Settings) ([]string, error) {
	key, err := seal.GenerateKey("dev")
	if err != nil {
		return nil, err
	}
	site := platform.Site()
	baseURL, authURL := site.Environment.Variables()
	prefix := strings.TrimSuffix(baseURL, "BASE_URL")
	variables := []string{
		baseURL + "=" + settings.BaseURL, authURL + "=" + settings.AuthURL,
		prefix + "CLIENT_ID=" + settings.ClientID, prefix + "CLIENT_SECRET=" + settings.ClientSecret,
		prefix + "REDIRECT_URL=" + settings.RedirectURI, prefix + "CLINIC_KEY=" + settings.ClinicKey,
		prefix + "WEBHOOK_SECRETS=" + settings.WebhookSecret, prefix + "WEBHOOK_CHALLENGE=" + settings.ChallengeToken,
		environmentVariable + "=" + site.Environment.String(), clinicKeyVariable + "=" + settings.ClinicKey,
		tokenVariable + "=" + platform.Tokens.Issue(model.User{}).AccessToken,
		controlVariable + "=" + settings.ControlURL,
	}
	for name, value := range map[string]string{
		"DISPENSARY_STORE": "memory:", "DISPENSARY_INBOX": "memory:",
		"DISPENSARY_SEAL_KEYS": key.Text().Reveal(), "DISPENSARY_STATE_KEYS": rand.Text() + rand.Text(),
	} {
		if set, _ := p.lookup(name); set == "" {
			variables = append(variables, name+"="+value)
		}
	}
	return variables, nil
}
