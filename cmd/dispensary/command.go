package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/closestmatch"
	"github.com/dispensary-go/dispensary/internal/environ"
	"github.com/dispensary-go/dispensary/oauth/tokens"
)

// group adds children to parent, which only shows help when it is called itself.
func group(parent *cobra.Command, children ...*cobra.Command) {
	parent.AddCommand(children...)
	parent.Args = cobra.ArbitraryArgs // RunE rejects them with a suggestion
	parent.RunE = func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return unknownCommand(c, args[0])
		}
		c.SetOut(c.ErrOrStderr())
		return errors.Join(c.Help(), errHelp)
	}
}

// errHelp is the error of a missing command, after help was shown.
var errHelp = errors.New("command is missing")

// unknownCommand returns the error of a command that does not exist, with a suggestion.
func unknownCommand(parent *cobra.Command, name string) error {
	err := fmt.Errorf("unknown command %q", name)
	parent.SuggestionsMinimumDistance = 2
	if near := parent.SuggestionsFor(name); len(near) > 0 {
		err = fmt.Errorf("%w: did you mean %s?", err, strings.Join(near, " or "))
	}
	return err
}

// noArguments rejects arguments.
func noArguments(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return fmt.Errorf("%s accepts no arguments: remove %q", c.Name(), args[0])
}

// asFlags returns err with field names replaced by flags, as in names. It returns err unchanged
// if any part of it is not an [*api.ArgumentError].
func asFlags(err error, names map[string]string) error {
	var texts []string
	for _, part := range environ.Errors(err) {
		var argument *api.ArgumentError
		if !errors.As(part, &argument) {
			return err
		}
		field, index, _ := strings.Cut(argument.Field, "[")
		if index != "" {
			index = "[" + index
		}
		texts = append(texts, cmp.Or(names[field], field)+index+" "+argument.Reason)
	}
	if len(texts) == 0 {
		return nil
	}
	return errors.New(strings.Join(texts, ", "))
}

// flagError returns the error of a flag. It explains a long flag with one dash, and suggests a
// similar flag for an unknown one.
func flagError(c *cobra.Command, err error) error {
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		written := unknown.GetSpecifiedShortnames()
		name, _, _ := strings.Cut(written, "=")
		if c.Flags().Lookup(name) != nil {
			return fmt.Errorf("-%s: long flags have two dashes, --%s", name, name)
		}
		if near := nearestFlag(c, unknown.GetSpecifiedName()); near != "" {
			return fmt.Errorf("%w: did you mean --%s?", err, near)
		}
	}
	return err
}

// nearestFlag returns the visible flag of a command that is most similar to name, or "".
func nearestFlag(c *cobra.Command, name string) string {
	var known []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			known = append(known, f.Name)
		}
	})
	return closestmatch.To(name, known)
}

// failure marks an error of a command that had begun. See [failed].
type failure struct{ error }

// Unwrap returns the marked error.
func (f failure) Unwrap() error { return f.error }

// failed marks an error of a command that had changed or printed something without a request, so
// that the exit code is 1. Errors after a request need no mark.
func failed(err error) error {
	if err == nil {
		return nil
	}
	return failure{err}
}

// maybeApplied is the error of a sent write without a usable response. It matches
// [dispensary.ErrMaybeApplied]. The library marks the errors of its own calls.
type maybeApplied struct{ error }

// Error returns the text of the cause, and adds that the write may have been applied.
func (m maybeApplied) Error() string { return m.error.Error() + ": write may have been applied" }

// Unwrap returns the cause.
func (m maybeApplied) Unwrap() error { return m.error }

// Is reports whether target is [dispensary.ErrMaybeApplied].
func (maybeApplied) Is(target error) bool { return target == dispensary.ErrMaybeApplied }

// Exit codes. dev can also exit with the code of its program.
const (
	exitDone   = 0 // success
	exitFailed = 1 // failed after it had begun, or found a problem
	exitReject = 2 // sent no request and changed nothing
)

// exitCode prints err on one line and returns the exit code.
func (p *program) exitCode(ran *cobra.Command, err error) int {
	if err == nil {
		return exitDone
	}
	switch {
	case errors.Is(err, errHelp):
		return exitReject
	case errors.Is(err, context.Canceled): // by Ctrl-C or SIGTERM, which alone cancel the context
		fmt.Fprintf(p.errOut, "dispensary: %s\n", interruption(err))
		return exitFailed
	}
	text := strings.TrimPrefix(oneLine(err.Error()), "dispensary: ")
	if again, ok := errors.AsType[*tokens.ReauthorizeError](err); ok {
		if !p.began(err) { // drop the identical prefix of each call that was not sent
			text = strings.TrimPrefix(oneLine(again.Error()), "tokens: ")
		}
		text += oneLine(fmt.Sprintf(`: connect with "dispensary login --user %s --environment %s"`, again.Key.User, again.Key.Environment))
	}
	if p.began(err) {
		fmt.Fprintf(p.errOut, "dispensary: %s\n", text)
		if child, ok := errors.AsType[childError](err); ok {
			return child.code
		}
		return exitFailed
	}
	if !fromSurroundings(err) {
		text += fmt.Sprintf(" (see dispensary help%s)", strings.TrimPrefix(ran.CommandPath(), ran.Root().Name()))
	}
	fmt.Fprintf(p.errOut, "dispensary: %s\n", text)
	return exitReject
}

// fromSurroundings reports whether err comes from the network, a file or a user who is not
// connected. The help of the command does not explain these errors.
func fromSurroundings(err error) bool {
	var (
		network net.Error
		file    *fs.PathError
		again   *tokens.ReauthorizeError
		call    *dispensary.Error
	)
	return errors.As(err, &network) || errors.As(err, &file) || errors.As(err, &again) || errors.As(err, &call)
}

// began reports whether the command had begun before it failed with err. Only began decides
// between exit codes 1 and 2.
func (p *program) began(err error) bool {
	var marked failure
	return p.sent.Load() || errors.As(err, &marked)
}

// interruption returns the text for a command ended by Ctrl-C. It contains each write that may
// have been applied, and each error with another cause.
func interruption(err error) string {
	texts := []string{"interrupted"}
	for _, part := range parts(err) {
		if !errors.Is(part, context.Canceled) || errors.Is(part, dispensary.ErrMaybeApplied) {
			texts = append(texts, strings.TrimPrefix(part.Error(), "dispensary: "))
		}
	}
	return oneLine(strings.Join(texts, ": "))
}

// parts returns the errors joined in err, without [failure] marks.
func parts(err error) (all []error) {
	for _, part := range environ.Errors(err) {
		if marked, ok := part.(failure); ok {
			all = append(all, parts(marked.error)...)
		} else {
			all = append(all, part)
		}
	}
	return all
}

// oneLine returns text on one line. Database drivers write errors of several indented lines.
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
