package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/control"
	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/platform"
	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/terminal"
	"github.com/dispensary-go/dispensary/dispensarytest"
)

// controlVariable names the control API of the platform that a program runs with.
const controlVariable = "DISPENSARY_CONTROL_URL"

// childGrace is how long the program may take to end when it is asked to.
const childGrace = 10 * time.Second

// devCommand is the command with the flags of fake.
type devCommand struct {
	*program
	fake platform.Config
	env  envFile
	args []string // the program and its arguments
}

func newDevCommand(p *program) *cobra.Command {
	c := devCommand{program: p}
	command := &cobra.Command{
		Use:   "dev -- COMMAND [ARGUMENT...]",
		Short: "Run a test platform and your program together",
		Long: `Dev runs a test platform, and your program with the library's environment variables set to
it: addresses, credentials, secrets, a token, and keys and storage in memory where the
environment has none. Either ends with the other, and both end with Ctrl-C. If the program ends
first, its exit code is that of dev, or 128 and the number of the signal that ended it.

A store or an inbox that outlives the command needs its encryption key in the next run. With
--state FILE dev keeps that key in FILE.seal.key. Otherwise set DISPENSARY_SEAL_KEYS.

The flags are those of fake. --env FILE writes the same variables to a file, for programs in
other terminals. The program finds the control API in DISPENSARY_CONTROL_URL, as
"dispensary trigger" does. With --json the program's output goes to stderr.`,
		Example: `  dispensary dev -- go run .
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
			if c.args = args; !c.hasProgram() {
				return fmt.Errorf("there is no program %q", args[0])
			}
			if err := c.env.check(); err != nil {
				return err
			}
			if err := c.fake.Complete(command.Flags()); err != nil {
				return err
			}
			return c.run(command.Context())
		},
	}
	c.fake.Define(command.Flags())
	c.env.define(command.Flags())
	return command
}

// hasProgram reports whether the program exists.
func (c *devCommand) hasProgram() bool {
	_, err := exec.LookPath(c.args[0])
	return err == nil || errors.Is(err, exec.ErrDot)
}

// run runs platform and program. The platform outlives the program, which may still call
// it while it ends.
func (c *devCommand) run(ctx context.Context) error {
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
		ended <- fake(platformContext, c.fake, func(platform *dispensarytest.Server, settings control.Settings) error {
			ready <- started{platform, settings}
			return nil
		})
	}()
	select {
	case err := <-ended:
		return err
	case s := <-ready:
		err := c.runBeside(ctx, s.platform, s.settings)
		stop()
		return errors.Join(err, <-ended)
	}
}

// runBeside runs the program until it or ctx ends.
func (c *devCommand) runBeside(ctx context.Context, platform *dispensarytest.Server, settings control.Settings) error {
	variables, err := c.variables(platform, settings, c.fake.StateFile())
	if err == nil {
		err = c.env.write(variables)
	}
	if err != nil {
		return err
	}
	command := exec.CommandContext(ctx, c.args[0], c.args[1:]...)
	command.Env = os.Environ()
	for name, value := range variables {
		command.Env = append(command.Env, name+"="+value, name+"_FILE=") // a file of the environment would contradict the value
	}
	command.Stdin, command.Stdout, command.Stderr = c.in, terminal.Unguarded(c.out), terminal.Unguarded(c.errOut)
	command.Cancel = func() error {
		_, _ = fmt.Fprintf(c.errOut, "Waiting up to %d s for %s to end.\n", int(childGrace.Seconds()), c.args[0])
		return command.Process.Signal(os.Interrupt)
	}
	command.WaitDelay = childGrace
	if c.json {
		command.Stdout = command.Stderr
		err = c.printJSON(settings)
	} else {
		_, err = fmt.Fprintf(c.errOut, "A test platform is at %s, its console at %s\nIts control API, for dispensary trigger --control, is at %s\n",
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
		return failed(childError{fmt.Errorf("%s ended with %s", c.args[0], exit.ProcessState), childCode(exit)})
	case command.Process != nil: // it ran
		return failed(err)
	}
	return err
}

// childError is the error of a program that failed, with the exit code for dev.
type childError struct {
	error
	code int
}

// childCode returns the exit code of a program as a shell would.
func childCode(exit *exec.ExitError) int {
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return exit.ExitCode()
}
