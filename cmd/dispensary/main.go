// Dispensary is the command beside the library. It runs a test platform of the
// dispensary as a separate program, for integrations in any language and for people who
// want to see it work:
//
//	go install github.com/dispensary-go/dispensary/cmd/dispensary@latest
//	dispensary fake
//	dispensary fake --json --webhook http://127.0.0.1:9000/webhooks
//	dispensary help fake
//
// It prints where the platform, its console and its control API stand once they answer.
// It ends with Ctrl-C.
//
// # What all commands have in common
//
// With --json a command prints one document, or one a line where it prints as things
// happen; folder schemas describes them. On a terminal it prints tables, anywhere else
// plain lines with tabs. NO_COLOR and --no-color switch colors off. A terminal and stderr get
// control characters and invisible characters as \u and their number. A pipe gets exact bytes.
//
// The exit code is 0 if all went well. It is 1 if the command failed after it had begun, such
// as with a call that the platform rejects, or if it found a problem. It is 2 if the command
// sent no request and changed nothing, because of the command line, a file, an address or
// the network. A script can safely repeat a command that ended with 2. Errors are one line
// on stderr. An error of a write ends with "write may have been applied" if the write was
// sent and its outcome is unknown.
//
// The configuration is that of package integration, from the same environment variables,
// or from a file: --config names one, and --profile one of the "profiles" in it, or in
// dispensary/config.json of the user's configuration folder. No flag takes a secret; a
// client secret that is not configured is asked for, where stdin is a terminal.
package main

import (
	"context"
	"net/http/httptrace"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/dispensary-go/dispensary"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second signal ends the program at once.
	context.AfterFunc(ctx, stop)
	p := &program{
		in: os.Stdin, out: os.Stdout, errOut: os.Stderr,
		environ: os.Environ(), configDir: os.UserConfigDir, cacheDir: os.UserCacheDir,
		terminal: term.IsTerminal(int(os.Stdout.Fd())), asks: term.IsTerminal(int(os.Stdin.Fd())), keyring: systemKeyring{},
	}
	os.Exit(p.run(ctx, os.Args[1:]))
}

// run runs the command and returns its exit code.
func (p *program) run(ctx context.Context, args []string) int {
	// All requests of all commands carry this context, so no command has to report them.
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { p.sent.Store(true) }})
	p.guard()
	root := p.root()
	root.SetArgs(args)
	root.SetIn(p.in)
	root.SetOut(p.out)
	root.SetErr(p.errOut)
	ran, err := root.ExecuteContextC(ctx)
	return p.exitCode(ran, err)
}

// root makes the tree of all commands.
func (p *program) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "dispensary",
		Short: "What an integrator of the dispensary platform needs at hand",
		Long: `Dispensary is the command beside the library: a test platform, and tools for those who
run an integration.

Exit codes: 0 if all went well. 1 if the command failed after it had begun, or found a
problem. 2 if the command sent no request and changed nothing, because of the command line,
a file, an address or the network.

The configuration comes from the library's environment variables, or with --config and
--profile from a file. Secrets are read from there or from a prompt, never from flags.`,
		Example: `  dispensary fake
  dispensary help fake`,
		Version:       dispensary.Version() + ", " + runtime.Version(),
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	root.SetUsageTemplate(strings.NewReplacer(
		".LocalFlags.FlagUsages", ".LocalFlags.FlagUsagesWrapped 100", ".InheritedFlags.FlagUsages", ".InheritedFlags.FlagUsagesWrapped 100",
	).Replace(root.UsageTemplate()))
	root.SetFlagErrorFunc(flagError)
	flags := root.PersistentFlags()
	flags.BoolVar(&p.json, "json", false, "print JSON: one document, or one a line")
	flags.BoolVar(&p.noColor, "no-color", false, "print without colors, as NO_COLOR does")
	flags.StringVar(&p.config, "config", "", "read the configuration from `FILE`, and not from the environment")
	flags.StringVar(&p.profile, "profile", "", "take the configuration `NAME` of the file's profiles")
	flags.BoolVar(&p.production, "production", false, "allow what changes something in a production environment")
	root.SetHelpCommand(newHelpCommand(p))
	group(root, p.commands()...)
	return root
}

// commands are all commands below the root.
func (p *program) commands() []*cobra.Command {
	return []*cobra.Command{
		newInitCommand(p),
		newFakeCommand(p),
		newAPICommand(p),
		newLoginCommand(p),
		newAccountsCommand(p),
		newDoctorCommand(p),
		newCheckCommand(p),
		newListenCommand(p),
		newVerifyCommand(p),
		newCatalogCommand(p),
		newTriggerCommand(p),
		newDevCommand(p),
		newProbeCommand(p),
	}
}
