package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/internal/joined"
	"github.com/dispensary-go/dispensary/oauth/tokens"
)

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
	exitRefuse = 2 // sent no request and changed nothing
)

// exitCode prints err on one line and returns the exit code.
func (p *program) exitCode(ran *cobra.Command, err error) int {
	if err == nil {
		return exitDone
	}
	switch {
	case errors.Is(err, errHelp):
		return exitRefuse
	case errors.Is(err, context.Canceled): // by Ctrl-C or SIGTERM, which alone cancel the context
		fmt.Fprintf(p.errOut, "dispensary: %s\n", interruption(err))
		return exitFailed
	}
	text := strings.TrimPrefix(oneLine(err.Error()), "dispensary: ")
	var again *tokens.ReauthorizeError
	if errors.As(err, &again) {
		if !p.began(err) { // drop the identical prefix of each call that was not sent
			text = strings.TrimPrefix(oneLine(again.Error()), "tokens: ")
		}
		text += oneLine(fmt.Sprintf(`: connect with "dispensary login --user %s --environment %s"`, again.Key.User, again.Key.Environment))
	}
	if p.began(err) {
		fmt.Fprintf(p.errOut, "dispensary: %s\n", text)
		var child childError
		if errors.As(err, &child) {
			return child.code
		}
		return exitFailed
	}
	if !fromSurroundings(err) {
		text += fmt.Sprintf(" (see dispensary help%s)", strings.TrimPrefix(ran.CommandPath(), ran.Root().Name()))
	}
	fmt.Fprintf(p.errOut, "dispensary: %s\n", text)
	return exitRefuse
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
	for _, part := range joined.Errors(err) {
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
