package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/control"
	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/platform"
	"github.com/dispensary-go/dispensary/dispensarytest"
)

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
