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
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second signal ends the program at once.
	context.AfterFunc(ctx, stop)
	p := &program{
		in: os.Stdin, out: os.Stdout, errOut: os.Stderr,
		lookup: os.LookupEnv, configDir: os.UserConfigDir, cacheDir: os.UserCacheDir,
		terminal: term.IsTerminal(int(os.Stdout.Fd())), asks: term.IsTerminal(int(os.Stdin.Fd())), keyring: systemKeyring{},
	}
	os.Exit(p.run(ctx, os.Args[1:]))
}
