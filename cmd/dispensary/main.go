// Dispensary is the command of the library. It runs a fake dispensary platform for
// integrations in any language, calls the API of the platform, and checks an integration and
// its webhook endpoint:
//
//	go install github.com/dispensary-go/dispensary/cmd/dispensary@latest
//	dispensary fake
//	dispensary fake --json --webhook http://127.0.0.1:9000/webhooks
//	dispensary help fake
//
// "dispensary help" lists all commands. The fake prints the URLs of its API, console and control
// API once they accept requests. It runs until Ctrl-C.
//
// # Output
//
// With --json, a command prints one document, or one per line if it prints results as they
// arrive. Folder schemas describes the documents. Without --json, it prints tables on a
// terminal and tab-separated lines elsewhere. NO_COLOR and --no-color disable colors.
//
// On a terminal and on stderr, control characters and invisible characters are printed as \u and
// their number. A pipe gets exact bytes.
//
// # Exit codes
//
//   - 0: success.
//   - 1: the command failed after it had begun, such as if the platform rejects a call, or it
//     found a problem.
//   - 2: the command sent no request and changed nothing, because of the command line, a file,
//     an address or the network. A script can safely repeat it.
//
// An error is one line on stderr. The error of a write ends with "write may have been applied"
// if the write was sent and its outcome is unknown.
//
// # Configuration
//
// A command reads the configuration of package integration from the same environment variables,
// or from a file. --config names a file. --profile names an entry in its "profiles". Without
// --config, this file is dispensary/config.json in the user's configuration folder.
//
// No flag contains a secret. If the client secret is not configured and stdin is a terminal, the
// command asks for it.
package main

import (
	"context"
	"net/http/httptrace"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/httpserve"
	_ "github.com/dispensary-go/dispensary/integration/mysql"
	_ "github.com/dispensary-go/dispensary/integration/postgres"
	_ "github.com/dispensary-go/dispensary/integration/sqlite"
)

func main() {
	p := &program{
		in: os.Stdin, out: os.Stdout, errOut: os.Stderr,
		surroundings: surroundings{environ: os.Environ(), configDir: os.UserConfigDir}, cacheDir: os.UserCacheDir, columns: maxColumns,
		terminal: term.IsTerminal(int(os.Stdout.Fd())), asks: term.IsTerminal(int(os.Stdin.Fd())), keyring: systemKeyring{},
	}
	if width, _, err := term.GetSize(int(os.Stdout.Fd())); err == nil && width > 0 {
		p.columns = min(width, maxColumns)
	}
	os.Exit(p.run(httpserve.UntilInterrupt(), os.Args[1:]))
}

// run runs the command in args and returns its exit code.
func (p *program) run(ctx context.Context, args []string) int {
	// All requests of all commands use this context, so that no command has to set p.sent.
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { p.sent.Store(true) }})
	p.guard()
	root := p.root()
	if slices.Equal(args, []string{"version"}) { // as in other commands
		args = []string{"--version"}
	}
	root.SetArgs(args)
	root.SetIn(p.in)
	root.SetOut(p.out)
	root.SetErr(p.errOut)
	root.InitDefaultCompletionCmd() // keeps the writers
	for _, child := range root.Commands() {
		if child.Name() == "completion" {
			group(child) // rejects an unknown shell
		}
	}
	ran, err := root.ExecuteContextC(ctx)
	return p.exitCode(ran, err)
}

// root creates the tree of all commands.
func (p *program) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "dispensary",
		Short: "Build, test and operate a dispensary integration",
		Long: `Dispensary runs a fake dispensary platform, calls the API, and checks an integration. It
changes nothing in a production environment without --production.

It reads its configuration from the library's environment variables, or from a file with
--config or --profile. Secrets come from there or from a prompt, never from a flag.

Exit codes: 0 on success. 1 if the command failed after it had begun, or found a problem. 2 if
it sent no request and changed nothing, because of the command line, a file, an address or the
network.`,
		Example: `  dispensary fake
  dispensary help fake`,
		Version:       dispensary.Version() + ", " + runtime.Version(),
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	width := strconv.Itoa(p.columns)
	root.SetUsageTemplate(strings.NewReplacer(
		".LocalFlags.FlagUsages", ".LocalFlags.FlagUsagesWrapped "+width, ".InheritedFlags.FlagUsages", ".InheritedFlags.FlagUsagesWrapped "+width,
	).Replace(root.UsageTemplate()))
	root.SetHelpTemplate(strings.ReplaceAll(root.HelpTemplate(), ". | trimTrailingWhitespaces", "fit . "+width))
	root.SetFlagErrorFunc(flagError)
	flags := root.PersistentFlags()
	flags.BoolVar(&p.json, "json", false, "print JSON: one document, or one per line")
	flags.BoolVar(&p.noColor, "no-color", false, "disable colors, as NO_COLOR does")
	flags.StringVar(&p.config, "config", "", "read the configuration from `FILE` instead of the environment")
	flags.StringVar(&p.profile, "profile", "", "use the profile `NAME` of the configuration file")
	flags.BoolVar(&p.production, "production", false, "allow changes in a production environment")
	root.SetHelpCommand(newHelpCommand(p))
	group(root, p.commands()...)
	return root
}

// commands returns all commands below the root.
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

func newHelpCommand(p *program) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Show the help of a command",
		Long: `Help shows the description of a command, its flags and examples. With --json it also describes
all commands below the command, for scripts and coding agents.

Exit codes: 0 on success. 2 if the command does not exist.`,
		Example: `  dispensary help
  dispensary help catalog sync
  dispensary help --json`,
		RunE: func(c *cobra.Command, args []string) error {
			topic, rest, err := c.Root().Find(args)
			if err != nil {
				return err
			}
			if len(rest) > 0 {
				return unknownCommand(topic, rest[0])
			}
			topic.InitDefaultHelpFlag()
			if p.json {
				return p.printJSON(manualOf(topic))
			}
			return topic.Help()
		},
	}
}

func init() { cobra.AddTemplateFunc("fit", fit) }

// fit breaks the paragraphs of a text into lines of up to columns characters. Other lines begin with
// white space, and stay.
func fit(text string, columns int) string {
	var lines []string
	paragraph := ""
	for given := range strings.SplitSeq(text+"\n", "\n") {
		if given != "" && given[0] != ' ' {
			paragraph += " " + given
			continue
		}
		if paragraph != "" {
			lines = append(lines, wrap(paragraph, columns, "")...)
		}
		paragraph, lines = "", append(lines, given)
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n")
}

// manual describes a command.
type manual struct {
	Command  string       `json:"command"` // as in "dispensary catalog sync"
	Usage    string       `json:"usage"`
	Short    string       `json:"short"`
	Long     string       `json:"long"`
	Example  string       `json:"example,omitempty"`
	Flags    []flagManual `json:"flags"`
	Commands []manual     `json:"commands,omitempty"`
}

// flagManual describes a flag. Value is the placeholder of the flag's value, or "" for a Boolean
// flag.
type flagManual struct {
	Name    string `json:"name"`
	Value   string `json:"value,omitempty"`
	Default string `json:"default,omitempty"`
	Text    string `json:"text"`
}

// manualOf returns the manual of a command and of the visible commands below it. Only the manual
// of the root contains the flags of all commands.
func manualOf(c *cobra.Command) manual {
	m := manual{Command: c.CommandPath(), Usage: c.UseLine(), Short: c.Short, Long: c.Long, Example: c.Example, Flags: []flagManual{}}
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		value, text := pflag.UnquoteUsage(f)
		one := flagManual{Name: "--" + f.Name, Value: value, Text: text}
		if value != "" {
			one.Default = strings.Trim(f.DefValue, "[]")
		}
		m.Flags = append(m.Flags, one)
	})
	for _, child := range c.Commands() {
		if child.IsAvailableCommand() {
			m.Commands = append(m.Commands, manualOf(child))
		}
	}
	return m
}
