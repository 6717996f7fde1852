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

// Exit codes. dev has that of its program besides.
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
