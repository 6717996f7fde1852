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
		Long: `Login prints the URL of an authorization flow for your browser. It stores the tokens, encrypted,
in the configured store, where the library finds them. If none is configured, or it is memory:,
login stores them in a file of the configuration folder, where only this command finds them. The
encryption key of this file is in the system keyring, or in a file that only you can read. At the
end, login prints the account: compare the owner with the
account that you signed in with. In a production environment it needs --production.

Only the browser that opens the printed URL can complete the login. The URL works once. Login
ignores all other visits, and waits until this browser returns, or until Ctrl-C.

The platform redirects the browser exactly to the registered redirect URL. Login serves this URL
if its host is a loopback address, as in http://127.0.0.1:8765/callback. Otherwise use --paste, and
paste the URL at which the browser ends up, or the code in it.

Exit codes: 0 if the user is connected. 1 if the authorization was declined, interrupted or has
failed. 2 if it sent no request and stored nothing.`,
		Example: `  dispensary login
  dispensary login --user dr-house --environment ca/sandbox
  dispensary login --paste --profile staging`,
		Args: noArguments,
		RunE: func(command *cobra.Command, _ []string) error { return c.run(command.Context()) },
	}
	flags := command.Flags()
	c.define(flags)
	c.defineUser(flags)
	flags.BoolVar(&c.paste, "paste", false, "read the redirect URL of the browser from stdin instead of serving it")
	return command
}

// run connects a user and prints the account.
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
	account, err := app.Accounts.Status(context.WithoutCancel(ctx), c.user) // the tokens are stored, so print the account even after Ctrl-C
	if err != nil {
		return failed(err)
	}
	return c.printAccounts(account)
}

// endsLogin reports whether a visit to the redirect URL ends the command: only a visit with the
// state of this command's flow does. Any web page, or a scanner that opens links, can send other
// visits.
func endsLogin(result *connect.Result) bool {
	return !errors.Is(result.Err, oauth.ErrState) && result.Key.User != "" // empty for a visit without a state
}

// loginPage writes the page that the browser shows at the end of a visit.
func loginPage(w http.ResponseWriter, result *connect.Result) {
	page, status := newLoginPage("You are connected", "You can close this page."), http.StatusOK
	switch {
	case result.Outcome == connect.OutcomeConnected:
	case endsLogin(result):
		page, status = newLoginPage("You are not connected", "Login failed: "+outcomeText(result)+". Run dispensary login again."), http.StatusBadRequest
	default:
		page, status = newLoginPage("This page is not part of your login", "Open the URL printed by dispensary login."), http.StatusBadRequest
	}
	page.Write(w, status)
}

func newLoginPage(title, text string) *webpage.Notice {
	return &webpage.Notice{Name: "dispensary login", Title: title, Text: text}
}

func outcomeText(result *connect.Result) string {
	return strings.ReplaceAll(string(result.Outcome), "_", " ")
}

// startOnce passes the first request with the secret to next, and rejects all others. Without the
// secret, another user of the machine could begin a flow and complete it with their own account.
func startOnce(next http.Handler, secret string) http.Handler {
	var used atomic.Bool
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		given := r.URL.Query().Get(startParameter)
		prefetch := r.Header.Get("Sec-Purpose") != "" // must not use up the secret
		if r.Method != http.MethodGet || prefetch || subtle.ConstantTimeCompare([]byte(given), []byte(secret)) != 1 || !used.CompareAndSwap(false, true) {
			newLoginPage("This URL is not valid", "It is incomplete or was already used. Run dispensary login again.").Write(w, http.StatusForbidden)
			return
		}
		r = r.Clone(r.Context())
		r.URL.RawQuery = ""
		next.ServeHTTP(w, r)
	})
}

// startParameter is the query parameter with the one-time secret of the printed URL.
const startParameter = "once"

// serveFlow serves the redirect URL until the browser returns to it.
func (c *loginCommand) serveFlow(ctx context.Context, app *integration.Integration, a integration.Application, ended <-chan *connect.Result) error {
	redirect, err := url.Parse(a.RedirectURL)
	if err != nil || redirect.Scheme != "http" || redirect.Port() == "" || !httpserve.Loopback(redirect.Hostname()) {
		return errors.New("the redirect URL is not a loopback URL, such as http://127.0.0.1:8765/callback: use --paste")
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", redirect.Host)
	if err != nil {
		return fmt.Errorf("%w: stop the program that uses it, or use --paste", httpserve.ListenError("the redirect address", redirect.Host, err))
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
		case result := <-ended: // the browser returned before Ctrl-C
			return errors.Join(notConnected(result), err)
		default:
			return errors.Join(err, ctx.Err())
		}
	}
}

// notConnected returns an error if the flow did not connect the user.
func notConnected(result *connect.Result) error {
	if result.Outcome == connect.OutcomeConnected {
		return nil
	}
	return failed(fmt.Errorf("not connected: %s", outcomeText(result)))
}

// pasteCode connects the user with the URL or code that the user pastes.
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
	_, _ = fmt.Fprintf(c.errOut, "Open this URL in a browser: %s\nPaste the URL at which the browser ends up, or the code in it: ", address)
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
