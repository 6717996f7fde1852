// Dispensary runs a test platform of the dispensary as a separate program, for
// integrations in any language and for people who want to see it work:
//
//	go run ./cmd/dispensary fake
//	go run ./cmd/dispensary fake -json -webhook http://127.0.0.1:9000/webhooks
//	go run ./cmd/dispensary help fake
//
// It prints where the platform, its console and its control API stand, and
// "Ready." once they answer. It ends with Ctrl-C.
//
// It also serves the documentation of the whole module, without a network:
//
//	go run ./cmd/dispensary docs
//
// Exit codes are 0 after an orderly end; 1 when the command line is right and
// something failed all the same, such as a port that is in use or a file that cannot
// be read; and 2 when the command line is wrong, whichever value it is.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/dispensary-go/dispensary"
)

// Exit codes.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

const usage = `Dispensary runs a test platform of the dispensary.

Usage:

  dispensary fake [flags]   run the platform until Ctrl-C
  dispensary docs [flags]   serve the documentation until Ctrl-C
  dispensary help COMMAND   list the flags of fake or docs
  dispensary version        show the version
  dispensary help           show this

Exit codes: 0 after an orderly end, 1 when something failed, 2 when the command
line is wrong.
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second signal ends the program at once.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is the whole command. It returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		fmt.Fprint(stderr, usage)
		return exitUsage
	}
	switch args[0] {
	case "help", "-h", "-help", "--help":
		return exitCode(stderr, showHelp(args[1:], stdout))
	case "version", "-version", "--version":
		fmt.Fprintf(stdout, "dispensary %s, %s\n", dispensary.Version, runtime.Version())
		return exitDone
	case "fake":
		return exitCode(stderr, fake(ctx, args[1:], stdout))
	case "docs":
		return exitCode(stderr, serveDocs(ctx, args[1:], stdout))
	default:
		return exitCode(stderr, &usageError{err: fmt.Errorf("there is no command %q", args[0]), hint: "dispensary help"})
	}
}

// showHelp shows what there is, or the flags of a command.
func showHelp(topic []string, stdout io.Writer) error {
	switch {
	case len(topic) == 0:
		fmt.Fprint(stdout, usage)
		return nil
	case topic[0] == "fake":
		_, err := parse([]string{"-h"}, stdout)
		return err
	case topic[0] == "docs":
		_, err := parseDocs([]string{"-h"}, stdout)
		return err
	default:
		return &usageError{err: fmt.Errorf("there is no command %q", topic[0]), hint: "dispensary help"}
	}
}

// exitCode prints an error in one line, and returns the exit code.
func exitCode(stderr io.Writer, err error) int {
	var wrong *usageError
	switch {
	case err == nil, errors.Is(err, errHelp):
		return exitDone
	case errors.As(err, &wrong):
		fmt.Fprintf(stderr, "dispensary: %v\nSee: %s\n", err, wrong.hint)
		return exitUsage
	default:
		fmt.Fprintf(stderr, "dispensary: %v\n", err)
		return exitFailed
	}
}
