package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api/observe"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/tokens"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/memoryinbox"
)

// ehr is the integrator's side: an electronic health record with a server, the
// tokens of its users, and an inbox for the platform's notices.
type ehr struct {
	address  string // of its server
	listener net.Listener
	server   *http.Server

	conns  *tokens.Connections
	client *dispensary.Client
	inbox  *memoryinbox.Inbox

	requests chan string            // ids of the requests for tokens
	orders   chan events.OrderEvent // order.placed, verified and decoded
}

// registration is what the developer dashboard of the platform shows, and the key of the
// clinic.
type registration struct {
	site           dispensary.Site
	clientID       string
	clientSecret   dispensary.Secret
	clinicKey      dispensary.Secret
	webhookSecret  dispensary.Secret
	challengeToken dispensary.Secret
}

// The paths of the health record's server.
const (
	connectPath  = "/dispensary/connect"
	callbackPath = "/dispensary/callback"
	webhookPath  = "/dispensary/webhooks"
)

// currentUser stands for the session of the user who is signed in to the health record.
const currentUser = "practitioner-7"

// newEHR takes an address, which has to be registered with the platform before
// the health record can be set up.
func newEHR() (*ehr, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return &ehr{
		address:  "http://" + listener.Addr().String(),
		listener: listener,
		requests: make(chan string, 8),
		orders:   make(chan events.OrderEvent, 1),
	}, nil
}

// start sets everything up with what the dashboard shows, and serves.
func (e *ehr) start(r registration) error {
	var err error
	// The first call with the key activates the integration. Until then no webhook comes.
	if e.client, err = dispensary.New(r.site, dispensary.WithClinicKey(r.clinicKey)); err != nil {
		return err
	}
	application, err := oauth.New(oauth.Config{
		Site: r.site, ClientID: r.clientID, ClientSecret: r.clientSecret, RedirectURL: e.address + callbackPath,
		Observers: []observe.Observer{{CallEnd: func(_ context.Context, call observe.CallResult) { e.requests <- call.RequestID }}},
	})
	if err != nil {
		return err
	}
	if e.conns, err = tokens.NewConnections(tokens.Config{Client: application, Store: tokens.NewMemoryStore()}); err != nil {
		return err
	}
	notices, err := e.receiver(r)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+connectPath, e.connect)
	mux.HandleFunc("GET "+callbackPath, e.callback)
	mux.Handle(webhookPath, notices)
	e.server = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second}
	go func() { _ = e.server.Serve(e.listener) }() // ends with stop
	return nil
}

// receiver accepts notices at once and handles them afterwards.
func (e *ehr) receiver(r registration) (http.Handler, error) {
	var router webhook.Router
	router.OnOrderPlaced(func(_ context.Context, event events.OrderEvent) error {
		e.orders <- event
		return nil
	})
	var err error
	if e.inbox, err = memoryinbox.New(memoryinbox.Config{Work: webhook.Work{Handle: router.Dispatch}}); err != nil {
		return nil, err
	}
	return webhook.NewHandler(webhook.HandlerConfig{
		Environment: r.site.Environment,
		Secrets:     []dispensary.Secret{r.webhookSecret},
		Challenge:   r.challengeToken,
		Inbox:       e.inbox,
	})
}

const stateCookie = "dispensary_state"

// connect sends the practitioner's browser to the platform. The state stays
// behind in a cookie, to be compared when the browser returns.
func (e *ehr) connect(w http.ResponseWriter, r *http.Request) {
	state := oauth.NewState()
	address, err := e.conns.Client().AuthorizeURL(state)
	if err != nil {
		http.Error(w, "cannot connect", http.StatusInternalServerError)
		return
	}
	http.SetCookie(w, &http.Cookie{Name: stateCookie, Value: state, Path: callbackPath, MaxAge: 600, HttpOnly: true, SameSite: http.SameSiteLaxMode})
	http.Redirect(w, r, address, http.StatusSeeOther)
}

// callback checks the state, turns the code into a token and stores it.
func (e *ehr) callback(w http.ResponseWriter, r *http.Request) {
	var state string
	if cookie, err := r.Cookie(stateCookie); err == nil {
		state = cookie.Value
	}
	code, err := oauth.ParseCallback(r.URL.Query(), state)
	if err != nil {
		http.Error(w, "not connected", http.StatusBadRequest)
		return
	}
	if _, err := e.conns.Connect(r.Context(), currentUser, code); err != nil {
		http.Error(w, "not connected", http.StatusBadGateway)
		return
	}
	fmt.Fprintln(w, "connected")
}

// as returns the client of one of the health record's users.
func (e *ehr) as(user string) *dispensary.Client {
	return e.client.WithTokenSource(e.conns.TokenSource(user))
}

func (e *ehr) stop(ctx context.Context) error {
	if e.server == nil {
		return e.listener.Close()
	}
	return errors.Join(e.server.Shutdown(ctx), e.inbox.Close(ctx))
}
