package main

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/control"
	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/httpserve"
	"github.com/dispensary-go/dispensary/integration"
	"github.com/dispensary-go/dispensary/internal/webpage"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/connect"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// loginCommand is the command with its flags.
type loginCommand struct {
	*program
	target
	paste bool
}

func newLoginCommand(p *program) *cobra.Command {
	c := loginCommand{program: p}
	command := &cobra.Command{
		Use:   "login",
		Short: "Connect a user in the browser",
		Long: `Login sends you through the platform's authorization page and stores the tokens, sealed, in
the configured store, where the library finds them. Without a configured store they are in
a file of your own, whose key is in the system's keyring, or in a file that only you can read.
It prints whose account it stored: compare the owner with the account that you signed in with.

Only the browser that opens the printed URL can complete the login. The URL works once. Login
ignores all other visits, and waits until that browser returns, or until Ctrl-C.

The platform sends the browser back to the registered redirect address, to the letter: login
serves it if it is a loopback address, such as http://127.0.0.1:8765/callback. Otherwise take
--paste, and paste the address at which the browser ends up, or the code in it.`,
		Example: `  dispensary login
  dispensary login --user dr-house --environment ca/sandbox
  dispensary login --paste --profile staging`,
		Args: noArguments,
		RunE: func(command *cobra.Command, _ []string) error { return c.run(command.Context()) },
	}
	flags := command.Flags()
	c.define(flags)
	c.defineUser(flags)
	flags.BoolVar(&c.paste, "paste", false, "paste the address that the browser ends up at, instead of serving it")
	return command
}

// run connects a user, and prints the account.
func (c *loginCommand) run(ctx context.Context) (err error) {
	ended := make(chan *connect.Result, 1)
	app, a, err := c.openAccounts(ctx, c.target, &connect.Config{
		User: func(*http.Request) (string, error) { return c.user, nil },
		Done: func(w http.ResponseWriter, _ *http.Request, result *connect.Result) {
			loginPage(w, result)
			if !endsLogin(result) {
				return
			}
			select {
			case ended <- result:
			default: // the first result counts
			}
		},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, failed(app.Shutdown(context.WithoutCancel(ctx)))) }()
	if err := c.allowWriting(a.Site.Environment); err != nil {
		return err
	}
	if err := (tokenstore.Key{Environment: a.Site.Environment, User: c.user}).Validate(); err != nil {
		return fmt.Errorf("--user: %w", err)
	}
	if c.paste {
		err = c.pasteCode(ctx, app, a)
	} else {
		err = c.serveFlow(ctx, app, a, ended)
	}
	if err != nil {
		return err
	}
	account, err := app.Accounts.Status(context.WithoutCancel(ctx), c.user) // the tokens are stored
	if err != nil {
		return failed(err)
	}
	return c.printAccounts(account)
}

// endsLogin reports whether a visit to the redirect address ends the command. Only a visit
// with the state of a flow that the command began does. Any web page, or a scanner that opens
// links, can send the others.
func endsLogin(result *connect.Result) bool {
	return !errors.Is(result.Err, oauth.ErrState) && result.Key.User != "" // empty for a visit without a state
}

// loginPage writes the page that the browser shows at the end of a visit.
func loginPage(w http.ResponseWriter, result *connect.Result) {
	page, status := newLoginPage("You are connected", "You can close this page."), http.StatusOK
	switch {
	case result.Outcome == connect.OutcomeConnected:
	case endsLogin(result):
		page, status = newLoginPage("You are not connected", "The login ended: "+outcomeText(result)+". Run dispensary login again."), http.StatusBadRequest
	default:
		page, status = newLoginPage("This is not the page of your login", "Open the URL that dispensary login printed."), http.StatusBadRequest
	}
	page.Write(w, status)
}

func newLoginPage(title, text string) *webpage.Notice {
	return &webpage.Notice{Name: "dispensary login", Title: title, Text: text}
}

func outcomeText(result *connect.Result) string {
	return strings.ReplaceAll(string(result.Outcome), "_", " ")
}

// startOnce lets one request with the secret through to the start of the flow. Another user of
// the machine could otherwise begin a flow and complete it with an account of their own.
func startOnce(next http.Handler, secret string) http.Handler {
	var used atomic.Bool
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		given := r.URL.Query().Get(startParameter)
		prefetch := r.Header.Get("Sec-Purpose") != "" // must not use the secret up
		if r.Method != http.MethodGet || prefetch || subtle.ConstantTimeCompare([]byte(given), []byte(secret)) != 1 || !used.CompareAndSwap(false, true) {
			newLoginPage("This URL does not work", "It is incomplete or was used already. Run dispensary login again.").Write(w, http.StatusForbidden)
			return
		}
		r = r.Clone(r.Context())
		r.URL.RawQuery = ""
		next.ServeHTTP(w, r)
	})
}

// startParameter is the query parameter with the one-time secret of the printed URL.
const startParameter = "once"

// serveFlow serves the redirect address until the browser has come back to it.
func (c *loginCommand) serveFlow(ctx context.Context, app *integration.Integration, a integration.Application, ended <-chan *connect.Result) error {
	redirect, err := url.Parse(a.RedirectURL)
	if err != nil || redirect.Scheme != "http" || redirect.Port() == "" || !httpserve.Loopback(redirect.Hostname()) {
		return errors.New("the redirect address is not one of this machine, such as http://127.0.0.1:8765/callback: take --paste")
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", redirect.Host)
	if err != nil {
		return fmt.Errorf("%w: end the program that uses it, or take --paste", httpserve.ListenError("the redirect address", redirect.Host, err))
	}
	secret := rand.Text()
	start := url.URL{Scheme: "http", Host: redirect.Host, Path: path.Join(path.Dir(redirect.Path), "connect"), RawQuery: startParameter + "=" + secret}
	mux := http.NewServeMux()
	mux.Handle(redirect.Path, app.Connect)
	mux.Handle(start.Path, startOnce(app.Connect, secret))
	serving, stop := context.WithCancel(ctx)
	defer stop()
	served := make(chan error, 1)
	go func() {
		served <- httpserve.Serve(serving, listener, control.Local(mux), func() error {
			_, err := fmt.Fprintf(c.errOut, "Open this URL in a browser: %s\n", &start)
			return err
		})
	}()
	select {
	case result := <-ended:
		stop()
		return errors.Join(notConnected(result), <-served)
	case err := <-served:
		select {
		case result := <-ended: // the last visit, which Ctrl-C did not interrupt
			return errors.Join(notConnected(result), err)
		default:
			return errors.Join(err, ctx.Err())
		}
	}
}

// notConnected returns the error of a flow that did not connect its user.
func notConnected(result *connect.Result) error {
	if result.Outcome == connect.OutcomeConnected {
		return nil
	}
	return failed(fmt.Errorf("not connected: %s", outcomeText(result)))
}

// pasteCode has the user bring the code from the browser.
func (c *loginCommand) pasteCode(ctx context.Context, app *integration.Integration, a integration.Application) error {
	conns, err := app.Accounts.Connections(a.Site.Environment)
	if err != nil {
		return err
	}
	state := oauth.NewState()
	address, err := conns.Client().AuthorizeURL(state)
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(c.errOut, "Open this URL in a browser: %s\nPaste the URL that it ends up at, or the code in it: ", address)
	text, err := c.readSecret(ctx)
	if err != nil {
		return err
	}
	code := dispensary.NewSecret(text)
	if back, err := url.Parse(text); err == nil && back.Scheme != "" {
		if code, err = oauth.ParseCallback(back.Query(), state); err != nil {
			return failed(err)
		}
	}
	return failed(app.Accounts.Connect(ctx, c.user, code))
}
