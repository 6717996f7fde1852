package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http/httptrace"
	"runtime"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/internal/joined"
	"github.com/dispensary-go/dispensary/oauth/tokens"
)

// program is the command with all that it finds around it, so that tests can run it in
// their own process.
type program struct {
	in          io.Reader
	out, errOut io.Writer
	lookup      func(name string) (value string, ok bool) // environment variables
	configDir   func() (string, error)                    // of the user
	cacheDir    func() (string, error)                    // of the user
	terminal    bool                                      // out is one
	asks        bool                                      // in is one, whose user can be asked
	keyring     keyringStore

	// What the flags of all commands say.
	json, noColor, production bool
	config, profile           string

	sent atomic.Bool // an HTTP request of the command got a connection
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
	root.SetHelpCommand(helpCommand())
	group(root, p.commands()...)
	return root
}

// commands are all commands below the root.
func (p *program) commands() []*cobra.Command {
	return []*cobra.Command{
		p.fakeCommand(),
		p.apiCommand(),
		p.loginCommand(),
		p.accountsCommand(),
		p.doctorCommand(),
		p.listenCommand(),
		p.verifyCommand(),
		p.catalogCommand(),
		p.triggerCommand(),
		p.devCommand(),
		p.probeCommand(),
	}
}

// group makes a command that only has others below it.
func group(parent *cobra.Command, children ...*cobra.Command) {
	parent.AddCommand(children...)
	parent.Args = cobra.ArbitraryArgs // so that it is us who refuse them
	parent.RunE = func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return unknownCommand(c, args[0])
		}
		c.SetOut(c.ErrOrStderr())
		return errors.Join(c.Help(), errHelp)
	}
}

// errHelp says that a command was missing, and that help was shown.
var errHelp = errors.New("a command is missing")

func unknownCommand(parent *cobra.Command, name string) error {
	err := fmt.Errorf("there is no command %q", name)
	parent.SuggestionsMinimumDistance = 2
	if near := parent.SuggestionsFor(name); len(near) > 0 {
		err = fmt.Errorf("%w: did you mean %s?", err, strings.Join(near, " or "))
	}
	return err
}

// noArguments refuses arguments.
func noArguments(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return fmt.Errorf("%s takes no arguments, but there is %q", c.Name(), args[0])
}

// flagError words what is wrong with a flag, for those who wrote a long one with one dash, too.
func flagError(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		written := unknown.GetSpecifiedShortnames()
		name, _, _ := strings.Cut(written, "=")
		if c.Flags().Lookup(name) != nil {
			return fmt.Errorf("-%s: long flags have two dashes, --%s", name, name)
		}
	}
	return err
}

// failure marks an error of a command that had begun its work. See [failed].
type failure struct{ error }

// Unwrap returns the marked error.
func (f failure) Unwrap() error { return f.error }

// failed marks an error of a command that changed or printed something without a request, so
// that the exit code is 1. Errors of requests need no mark.
func failed(err error) error {
	if err == nil {
		return nil
	}
	return failure{err}
}

// maybeApplied is the error of a write that was sent and got no usable response. It matches
// [dispensary.ErrMaybeApplied]. Calls of the library mark their own errors.
type maybeApplied struct{ error }

// Error returns the text of the cause and the outcome.
func (m maybeApplied) Error() string { return m.error.Error() + ": write may have been applied" }

// Unwrap returns the cause.
func (m maybeApplied) Unwrap() error { return m.error }

// Is matches the outcome.
func (maybeApplied) Is(target error) bool { return target == dispensary.ErrMaybeApplied }

// Exit codes.
const (
	exitDone   = 0 // success
	exitFailed = 1 // the command failed after it had begun, or found a problem
	exitRefuse = 2 // the command sent no request and changed nothing
)

// exitCode prints an error in one line, and returns the exit code.
func (p *program) exitCode(ran *cobra.Command, err error) int {
	if err == nil {
		return exitDone
	}
	switch {
	case errors.Is(err, errHelp):
		return exitRefuse
	case errors.Is(err, context.Canceled): // by Ctrl-C: nothing else ends the context
		fmt.Fprintf(p.errOut, "dispensary: %s\n", interruption(err))
		return exitFailed
	}
	text := strings.TrimPrefix(oneLine(err.Error()), "dispensary: ")
	var again *tokens.ReauthorizeError
	if errors.As(err, &again) {
		if !p.began(err) { // each call that was not sent says the same
			text = strings.TrimPrefix(oneLine(again.Error()), "tokens: ")
		}
		text += oneLine(fmt.Sprintf(`: connect with "dispensary login --user %s --environment %s"`, again.Key.User, again.Key.Environment))
	}
	if p.began(err) {
		fmt.Fprintf(p.errOut, "dispensary: %s\n", text)
		return exitFailed
	}
	if !fromSurroundings(err) {
		text += fmt.Sprintf(" (see dispensary help%s)", strings.TrimPrefix(ran.CommandPath(), ran.Root().Name()))
	}
	fmt.Fprintf(p.errOut, "dispensary: %s\n", text)
	return exitRefuse
}

// fromSurroundings reports whether a command that did not begin was stopped by the network, a
// file or a missing connection. The help of the command does not explain these.
func fromSurroundings(err error) bool {
	var (
		network net.Error
		file    *fs.PathError
		again   *tokens.ReauthorizeError
		call    *dispensary.Error
	)
	return errors.As(err, &network) || errors.As(err, &file) || errors.As(err, &again) || errors.As(err, &call)
}

// began reports whether the command had begun before it failed with err. It alone decides
// between the exit codes 1 and 2.
func (p *program) began(err error) bool {
	var marked failure
	return p.sent.Load() || errors.As(err, &marked)
}

// interruption returns the text for a command that Ctrl-C ended. It keeps each write that may
// have been applied and each error that has another cause.
func interruption(err error) string {
	texts := []string{"interrupted"}
	for _, part := range parts(err) {
		if !errors.Is(part, context.Canceled) || errors.Is(part, dispensary.ErrMaybeApplied) {
			texts = append(texts, strings.TrimPrefix(part.Error(), "dispensary: "))
		}
	}
	return oneLine(strings.Join(texts, ": "))
}

// parts returns the errors that were joined to err, without their marks.
func parts(err error) (all []error) {
	for _, part := range joined.Errors(err) {
		if marked, ok := part.(failure); ok {
			all = append(all, parts(marked.error)...)
		} else {
			all = append(all, part)
		}
	}
	return all
}

// oneLine returns text in one line. Drivers break and indent the lines of their errors.
func oneLine(text string) string {
	var line strings.Builder
	for part := range strings.Lines(text) {
		part = strings.ReplaceAll(strings.TrimSpace(part), "\t", " ")
		switch {
		case part == "":
			continue
		case line.Len() == 0:
		case strings.HasSuffix(line.String(), ":"):
			line.WriteString(" ")
		default:
			line.WriteString("; ")
		}
		line.WriteString(part)
	}
	return line.String()
}

func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Show what a command does, and its flags",
		Long:  "Help shows what a command does, with examples and all of its flags.",
		Example: `  dispensary help
  dispensary help fake
  dispensary help catalog sync`,
		ValidArgsFunction: func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			at, _, err := c.Root().Find(args)
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			var names []string
			for _, child := range at.Commands() {
				if child.IsAvailableCommand() {
					names = append(names, child.Name())
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, args []string) error {
			topic, rest, err := c.Root().Find(args)
			if err != nil {
				return err
			}
			if len(rest) > 0 {
				return unknownCommand(topic, rest[0])
			}
			topic.InitDefaultHelpFlag()
			return topic.Help()
		},
	}
}
