package main

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/httpserve"
	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/site"
	"github.com/dispensary-go/dispensary/docs"
)

// docsConfig is what the flags of docs say.
type docsConfig struct {
	addr, write, man string
}

func (p *program) docsCommand() *cobra.Command {
	c := docsConfig{}
	command := &cobra.Command{
		Use:   "docs",
		Short: "Serve the documentation until Ctrl-C",
		Long: `Docs serves the documentation until Ctrl-C: the cookbook, the packages and the test
platform, with a search. The pages are in the command; it needs no network.`,
		Example: `  dispensary docs
  dispensary docs --addr 127.0.0.1:8000
  dispensary docs --write /var/www/dispensary
  dispensary docs --man /usr/local/share/man/man1`,
		Args: noArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := c.check(); err != nil {
				return err
			}
			if c.man != "" {
				if err := doc.GenManTree(command.Root(), &doc.GenManHeader{Section: "1", Source: "dispensary"}, c.man); err != nil {
					return fmt.Errorf("--man: %w", err)
				}
				return nil
			}
			return p.serveDocs(command.Context(), c)
		},
	}
	flags := command.Flags()
	flags.StringVar(&c.addr, "addr", "127.0.0.1:0", "`HOST:PORT` to serve at, on loopback; port 0 is a free one")
	flags.StringVar(&c.write, "write", "", "write the site to `FOLDER`, which any web server can serve, and end")
	flags.StringVar(&c.man, "man", "", "write the command's manual pages to `FOLDER`, which exists, and end")
	return command
}

func (c docsConfig) check() error {
	switch host, _, err := net.SplitHostPort(c.addr); {
	case err != nil:
		return fmt.Errorf("--addr %s: not of the form HOST:PORT", c.addr)
	case !httpserve.Loopback(host):
		return fmt.Errorf("--addr %s: the documentation stays on loopback; --write makes a site for others", c.addr)
	case c.write != "" && c.man != "":
		return errors.New("--man and --write: one of the two at a time")
	}
	return nil
}

// serveDocs serves the documentation until ctx ends, or writes it.
func (p *program) serveDocs(ctx context.Context, c docsConfig) error {
	pages, err := site.New(docs.Pages)
	if err != nil {
		return err
	}
	if c.write != "" {
		if err := pages.Write(c.write); err != nil {
			return fmt.Errorf("--write: %w", err)
		}
		return nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", c.addr)
	if err != nil {
		return httpserve.ListenError("--addr", c.addr, err)
	}
	return httpserve.Serve(ctx, listener, pages, func() error {
		address := "http://" + listener.Addr().String() + "/"
		if p.json {
			return p.printJSON(map[string]string{"url": address})
		}
		_, err := fmt.Fprintf(p.out, "Documentation: %s\nEnd with Ctrl-C.\nReady.\n", address)
		return err
	})
}
