package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/httpserve"
	"github.com/dispensary-go/dispensary/integration"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/connect"
)

func (p *program) loginCommand() *cobra.Command {
	var t target
	var paste bool
	command := &cobra.Command{
		Use:   "login",
		Short: "Connect a user in the browser",
		Long: `Login sends you through the platform's authorization page and stores the tokens, sealed, in
the configured store, where the library finds them. Without a configured store they are in
a file of your own, whose key is in the system's keyring, or in a file that only you can read.

The platform sends the browser back to the registered redirect address, to the letter: login
serves it if it is a loopback address, such as http://127.0.0.1:8765/callback. Otherwise take
--paste, and paste the address at which the browser ends up, or the code in it.`,
		Example: `  dispensary login
  dispensary login --user dr-house --environment ca/sandbox
  dispensary login --paste --profile staging`,
		Args: noArguments,
		RunE: func(command *cobra.Command, _ []string) error { return p.login(command.Context(), t, paste) },
	}
	flags := command.Flags()
	t.define(flags)
	t.defineUser(flags)
	flags.BoolVar(&paste, "paste", false, "paste the address that the browser ends up at, instead of serving it")
	return command
}

// login connects a user, and prints the account.
func (p *program) login(ctx context.Context, t target, paste bool) (err error) {
	ended := make(chan *connect.Result, 1)
	app, a, err := p.openAccounts(ctx, t, &connect.Config{
		User: func(*http.Request) (string, error) { return t.user, nil },
		Done: func(w http.ResponseWriter, _ *http.Request, result *connect.Result) {
			if result.Connected() { // there is no other page to go to
				w.Header().Set("Content-Type", "text/plain; charset=utf-8")
				_, _ = io.WriteString(w, "You are connected, and can close this page.\n")
			} else {
				connect.DefaultPage(w, result)
			}
			select {
			case ended <- result:
			default: // the first end counts
			}
		},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, failed(app.Shutdown(context.WithoutCancel(ctx)))) }()
	if err := p.allowWriting(a.Site.Environment); err != nil {
		return err
	}
	if paste {
		err = p.pasteCode(ctx, app, a, t.user)
	} else {
		err = p.serveFlow(ctx, app, a, ended)
	}
	if err != nil {
		return err
	}
	account, err := app.Accounts.Status(ctx, t.user)
	if err != nil {
		return failed(err)
	}
	return p.printAccounts(account)
}

// serveFlow serves the redirect address until the browser has come back to it.
func (p *program) serveFlow(ctx context.Context, app *integration.Integration, a integration.Application, ended <-chan *connect.Result) error {
	redirect, err := url.Parse(a.RedirectURL)
	if err != nil || redirect.Scheme != "http" || redirect.Port() == "" || !httpserve.Loopback(redirect.Hostname()) {
		return errors.New("the redirect address is not one of this machine, such as http://127.0.0.1:8765/callback: take --paste")
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", redirect.Host)
	if err != nil {
		return fmt.Errorf("%w: end the program that uses it, or take --paste", httpserve.ListenError("the redirect address", redirect.Host, err))
	}
	mux := http.NewServeMux()
	app.Mount(mux)
	serving, stop := context.WithCancel(ctx)
	defer stop()
	served := make(chan error, 1)
	go func() {
		served <- httpserve.Serve(serving, listener, mux, func() error {
			start := url.URL{Scheme: "http", Host: redirect.Host, Path: path.Join(path.Dir(redirect.Path), "connect")}
			_, err := fmt.Fprintf(p.errOut, "Open this address in a browser: %s\n", &start)
			return err
		})
	}()
	for {
		select {
		case result := <-ended:
			if !result.Connected() {
				err = failed(fmt.Errorf("not connected: %s", strings.ReplaceAll(string(result.Outcome), "_", " ")))
			}
			stop()
			return errors.Join(err, <-served)
		case err := <-served:
			return errors.Join(err, ctx.Err())
		}
	}
}

// pasteCode has the user bring the code from the browser.
func (p *program) pasteCode(ctx context.Context, app *integration.Integration, a integration.Application, user string) error {
	conns, err := app.Accounts.Connections(a.Site.Environment)
	if err != nil {
		return err
	}
	state := oauth.NewState()
	address, err := conns.Client().AuthorizeURL(state)
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(p.errOut, "Open this address in a browser: %s\nPaste the address that it ends up at, or the code in it: ", address)
	text, err := p.readSecret(ctx)
	if err != nil {
		return err
	}
	code := dispensary.Secret(text)
	if back, err := url.Parse(text); err == nil && back.Scheme != "" {
		if code, err = oauth.ParseCallback(back.Query(), state); err != nil {
			return failed(err)
		}
	}
	return failed(app.Accounts.Connect(ctx, user, code))
}

// readSecret reads a line of stdin, which a terminal does not show.
func (p *program) readSecret(ctx context.Context) (string, error) {
	type line struct {
		text string
		err  error
	}
	read, shown := make(chan line, 1), func() {}
	file, terminal := p.in.(*os.File)
	if terminal = terminal && term.IsTerminal(int(file.Fd())); terminal {
		if before, err := term.GetState(int(file.Fd())); err == nil {
			shown = func() { _ = term.Restore(int(file.Fd()), before) }
		}
	}
	go func() {
		if terminal {
			text, err := term.ReadPassword(int(file.Fd()))
			_, _ = fmt.Fprintln(p.errOut)
			read <- line{string(text), err}
			return
		}
		text, err := bufio.NewReader(p.in).ReadString('\n')
		if err == io.EOF && text != "" {
			err = nil
		}
		read <- line{text, err}
	}()
	select {
	case l := <-read:
		text := strings.TrimSpace(l.text)
		if l.err != nil || text == "" {
			return "", errors.New("nothing was entered")
		}
		return text, nil
	case <-ctx.Done():
		shown() // ReadPassword goes on waiting, and the shell would hide what is typed after us
		return "", ctx.Err()
	}
}
