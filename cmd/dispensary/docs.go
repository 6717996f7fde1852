package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"

	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/site"
	"github.com/dispensary-go/dispensary/docs"
)

// docsConfig is the result of parsing the flags of docs.
type docsConfig struct {
	addr, write string
}

const docsHelp = `Docs serves the documentation until Ctrl-C: the cookbook, the packages and the
test platform, with a search. The pages are in the command; it needs no network.

Usage: dispensary docs [flags]

  -addr HOST:PORT   where, on loopback; port 0 is a free one (127.0.0.1:0)
  -write FOLDER     write the site to a folder, which any web server can serve, and end
`

// parseDocs reads the flags of docs.
func parseDocs(args []string, stdout io.Writer) (docsConfig, error) {
	c := docsConfig{}
	wrong := func(err error) error { return &usageError{err: err, hint: "dispensary help docs"} }
	flags := flag.NewFlagSet("docs", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // errors are reported by the caller, in one line
	flags.StringVar(&c.addr, "addr", "127.0.0.1:0", "")
	flags.StringVar(&c.write, "write", "", "")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, docsHelp)
		return c, errHelp
	case err != nil:
		return c, wrong(err)
	case flags.NArg() > 0:
		return c, wrong(fmt.Errorf("docs takes no arguments, but there is %q", flags.Arg(0)))
	}
	switch host, _, err := net.SplitHostPort(c.addr); {
	case err != nil:
		return c, wrong(fmt.Errorf("-addr %s: not of the form HOST:PORT", c.addr))
	case !loopback(host):
		return c, wrong(fmt.Errorf("-addr %s: the documentation stays on loopback; -write makes a site for others", c.addr))
	}
	return c, nil
}

// serveDocs serves the documentation until ctx ends, or writes it.
func serveDocs(ctx context.Context, args []string, stdout io.Writer) error {
	c, err := parseDocs(args, stdout)
	if err != nil {
		return err
	}
	pages, err := site.New(docs.Pages)
	if err != nil {
		return err
	}
	if c.write != "" {
		if err := pages.Write(c.write); err != nil {
			return fmt.Errorf("-write: %w", err)
		}
		return nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", c.addr)
	if err != nil {
		return listenError("-addr", c.addr, err)
	}
	return serve(ctx, listener, pages, func() error {
		_, err := fmt.Fprintf(stdout, "Documentation: http://%s/\nEnd with Ctrl-C.\nReady.\n", listener.Addr())
		return err
	})
}
