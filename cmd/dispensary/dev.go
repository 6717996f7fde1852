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

// controlVariable is the environment variable with the URL of the control API.
const controlVariable = "DISPENSARY_CONTROL_URL"

// childGrace is the time from the interrupt of the program until it is killed. By default
// [integration.Integration.Serve] takes up to 25 seconds to stop.
const childGrace = 30 * time.Second

// devCommand is the command with its flags, which include those of fake.
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
		Short: "Run your program with a fake platform",
		Long: `Dev runs a fake platform and your program, with the library's environment variables set for it:
URLs, credentials, secrets, a token, and, if the environment has none, encryption keys and storage
in memory. If the program or the platform ends, the other one ends, too. Ctrl-C ends both.

A store or an inbox that outlives the command needs its encryption key in the next run. With
--state FILE, dev stores this key in FILE.seal.key. Without --state, set DISPENSARY_SEAL_KEYS.

Dev has the flags of fake. --env FILE writes the same variables to a file, for programs in other
terminals. DISPENSARY_CONTROL_URL contains the URL of the control API for your program and for
"dispensary trigger". With --json, the output of your program goes to stderr.

Exit codes: the exit code of your program, or 128 plus the number of the signal that ended it. 0
after Ctrl-C. 2 if the platform or the program cannot be started.`,
		Example: `  dispensary dev -- go run .
  dispensary dev --webhook http://127.0.0.1:8080/webhooks/us-sandbox -- npm start
  dispensary dev --redirect-uri http://127.0.0.1:8080/dispensary/callback -- ./ehr
  dispensary dev -- dispensary api GET /clinic`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("dev needs a command after two dashes, such as dev -- ./ehr")
			}
			return nil
		},
		RunE: func(command *cobra.Command, args []string) error {
			if c.args = args; !c.hasProgram() {
				return fmt.Errorf("program %q does not exist or is not executable", args[0])
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

// hasProgram reports whether the program is an executable file.
func (c *devCommand) hasProgram() bool {
	_, err := exec.LookPath(c.args[0])
	return err == nil || errors.Is(err, exec.ErrDot)
}

// run runs platform and program. The platform ends after the program, because the program may still
// call it during its shutdown.
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
		defer end() // ends the program, too
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

// runBeside runs the program until it exits or ctx ends.
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
		command.Env = append(command.Env, name+"="+value, name+"_FILE=") // an inherited NAME_FILE would contradict the value
	}
	command.Stdin, command.Stdout, command.Stderr = c.in, terminal.Unguarded(c.out), terminal.Unguarded(c.errOut)
	command.Cancel = func() error {
		_, _ = fmt.Fprintf(c.errOut, "Waiting up to %d s for %s to exit.\n", int(childGrace.Seconds()), c.args[0])
		return command.Process.Signal(os.Interrupt)
	}
	command.WaitDelay = childGrace
	if c.json {
		command.Stdout = command.Stderr
		err = c.printJSON(settings)
	} else {
		_, err = fmt.Fprintf(c.errOut, "The fake platform is at %s, its console at %s\nThe control API, for dispensary trigger --control, is at %s\n",
			settings.BaseURL, settings.ConsoleURL, settings.ControlURL)
	}
	if err != nil {
		return err
	}
	err = command.Run()
	var exit *exec.ExitError
	switch {
	case err == nil, ctx.Err() != nil: // Ctrl-C, or the platform has failed
		return nil
	case errors.As(err, &exit):
		return failed(childError{fmt.Errorf("%s failed: %s", c.args[0], exit.ProcessState), childCode(exit)})
	case command.Process != nil: // it was started
		return failed(err)
	}
	return err
}

// childError is the error of a failed program, with the exit code for dev.
type childError struct {
	error
	code int
}

// childCode returns the exit code that a shell would return for a program.
func childCode(exit *exec.ExitError) int {
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return exit.ExitCode()
}

func newFakeCommand(p *program) *cobra.Command {
	c, env := platform.Config{}, envFile("")
	command := &cobra.Command{
		Use:   "fake",
		Short: "Run a fake dispensary platform until Ctrl-C",
		Long:  platform.Help(),
		Example: `  dispensary fake --addr 127.0.0.1:8080 --webhook http://127.0.0.1:9000/webhooks
  dispensary fake --json --freeze 2026-03-02T09:00:00Z
  dispensary fake --env .env.fake --world clinic.json
  dispensary fake --tls --cert platform.pem --behavior refresh-rotation=grace`,
		Args: noArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := env.check(); err != nil {
				return err
			}
			if err := c.Complete(command.Flags()); err != nil {
				return err
			}
			err := fake(command.Context(), c, func(server *dispensarytest.Server, settings control.Settings) error {
				if err := p.writeEnv(env, server, settings, c.StateFile()); err != nil {
					return err
				}
				if p.json {
					return p.printJSON(settings)
				}
				return platform.Announce(p.out, c, settings)
			})
			if state := c.StateFile(); err == nil && state != "" && !p.json {
				_, _ = fmt.Fprintf(p.out, "The state is saved in %s.\n", state) // stdout may be closed already
			}
			return err
		},
	}
	c.Define(command.Flags())
	env.define(command.Flags())
	return command
}

// writeEnv writes the environment variables of a platform to the file of --env, if it is set.
func (p *program) writeEnv(to envFile, server *dispensarytest.Server, settings control.Settings, state string) error {
	if to == "" {
		return nil
	}
	variables, err := p.variables(server, settings, state)
	if err != nil {
		return err
	}
	return to.write(variables)
}

// fake runs a platform. If the state file cannot be written, it returns an error with exit code 1.
func fake(ctx context.Context, c platform.Config, ready func(*dispensarytest.Server, control.Settings) error) error {
	err := platform.Run(ctx, c, ready)
	if errors.As(err, new(platform.StateError)) {
		return failed(err)
	}
	return err
}
