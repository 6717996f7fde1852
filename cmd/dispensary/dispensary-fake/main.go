// Dispensary-fake is "dispensary fake" without the dependencies of the other commands. It runs a
// fake dispensary platform until Ctrl-C. The container image runs it. It has the same flags except
// --env:
//
//	go install github.com/dispensary-go/dispensary/cmd/dispensary/dispensary-fake@latest
//	dispensary-fake --addr 127.0.0.1:8080
//
// The container image has this program and no other file. It listens on 127.0.0.1:8080, with
// console and control API on 127.0.0.1:8081, so it needs the network of its host, or of the
// container that calls it (network_mode: "service:NAME" in a compose file). Flags may follow:
//
//	docker run --rm --network host ghcr.io/dispensary-go/dispensary-fake --seed 1
//
// The image's health check is "dispensary-fake --health". It needs the --control-addr of the
// running program. To send webhooks to HTTPS endpoints, mount the certificates of a system
// with --volume /etc/ssl/certs:/etc/ssl/certs:ro.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/control"
	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/httpserve"
	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/platform"
	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/terminal"
	"github.com/dispensary-go/dispensary/dispensarytest"
)

func main() {
	var out io.Writer = os.Stdout
	if term.IsTerminal(int(os.Stdout.Fd())) {
		out = terminal.NewWriter(out)
	}
	os.Exit(run(httpserve.UntilInterrupt(), os.Args[1:], out, terminal.NewWriter(os.Stderr)))
}

// run runs the program and returns the exit code: 0 on success, 1 if the state file cannot be
// written or the health check fails, and 2 if the platform does not start.
func run(ctx context.Context, args []string, out, errOut io.Writer) int {
	var c platform.Config
	flags := pflag.NewFlagSet("dispensary-fake", pflag.ContinueOnError)
	flags.SetOutput(io.Discard)
	asJSON := flags.Bool("json", false, "print one JSON document")
	health := flags.Bool("health", false, "check the platform of this --control-addr: exit code 0 if it responds, 1 if not")
	c.Define(flags)
	err := flags.Parse(args)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		_, _ = fmt.Fprintf(out, "%s\nFlags:\n%s", platform.Help(), flags.FlagUsages())
		return 0
	case err != nil:
	case flags.NArg() > 0:
		err = fmt.Errorf("dispensary-fake accepts no arguments: remove %q", flags.Arg(0))
	case *health:
		err = c.Health(ctx)
	default:
		err = serve(ctx, c, flags, *asJSON, out)
	}
	if err == nil {
		return 0
	}
	_, _ = fmt.Fprintln(errOut, "dispensary-fake:", err)
	if errors.As(err, new(platform.StateError)) || errors.As(err, new(platform.HealthError)) {
		return 1
	}
	return 2
}

// serve runs the platform until ctx ends, and prints its settings once it responds.
func serve(ctx context.Context, c platform.Config, flags *pflag.FlagSet, asJSON bool, out io.Writer) error {
	if err := c.Complete(flags); err != nil {
		return err
	}
	return platform.Run(ctx, c, func(_ *dispensarytest.Server, settings control.Settings) error {
		if asJSON {
			return json.NewEncoder(out).Encode(settings)
		}
		return platform.Announce(out, c, settings)
	})
}
