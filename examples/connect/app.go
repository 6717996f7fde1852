package main

import (
	"context"
	"crypto/rand"
	"errors"
	"html/template"
	"log/slog"
	"net/http"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/accounts"
	"github.com/dispensary-go/dispensary/oauth/connect"
	"github.com/dispensary-go/dispensary/oauth/tokens"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// The paths of the application. The redirect URL in the platform's dashboard ends with callbackPath.
const (
	mountPath    = "/dispensary/"
	callbackPath = mountPath + "callback"
)

// currentUser represents the session of the signed-in user.
const currentUser = "practitioner-7"

// app is the integrator's application.
type app struct {
	users   *accounts.Accounts
	connect http.Handler
}

// newApp creates the application with the values of the platform's dashboard. clinicID is the
// platform's ID of the clinic of currentUser.
func newApp(site dispensary.Site, clientID string, clientSecret dispensary.Secret, home, clinicID string) (*app, error) {
	users, err := accounts.New(accounts.Config{
		Applications: []oauth.Config{{
			Site: site, ClientID: clientID, ClientSecret: clientSecret, RedirectURL: home + callbackPath,
		}},
		Tokens: tokens.Config{
			Store: tokenstore.NewMemoryStore(), // a real application stores tokens in its database
			Verify: func(_ context.Context, grant tokens.Authorization) error {
				if grant.Owner.Type != oauth.ResourceOwnerPractitioner {
					return errors.New("connect the account of a practitioner")
				}
				switch grant.Clinic.ID { // a real application has the clinic of each user in its database
				case "":
					return tokens.ErrUndecided
				case clinicID:
					return nil
				}
				return errors.New("the account belongs to another clinic")
			},
			Observers: []tokens.Observer{observer},
		},
	})
	if err != nil {
		return nil, err
	}
	pages, err := users.Handler(connect.Config{
		// A real application reads its keys from its secret store. All replicas use the same keys.
		StateKeys:       []dispensary.Secret{dispensary.NewSecret(rand.Text() + rand.Text())},
		User:            func(*http.Request) (string, error) { return currentUser, nil },
		LoopbackCookies: true, // plain http, for development only
	})
	return &app{users: users, connect: pages}, err
}

// observer logs events. A real application updates its pages and alerts its operators here.
var observer = tokens.Observer{
	Connected: func(ctx context.Context, e tokens.Authorization) {
		slog.InfoContext(ctx, "connected", "user", e.Key.User, "account", e.Owner.ID)
	},
	Disconnected: func(ctx context.Context, key tokenstore.Key) { slog.InfoContext(ctx, "disconnected", "user", key.User) },
	MustReauthorize: func(ctx context.Context, e *tokens.ReauthorizeError) {
		slog.InfoContext(ctx, "must connect again", "user", e.Key.User, "reason", e.Reason)
	},
	Restored: func(ctx context.Context, key tokenstore.Key) {
		slog.InfoContext(ctx, "need not connect again after all", "user", key.User)
	},
	CommitDelayed: func(ctx context.Context, e tokens.CommitDelayed) {
		slog.ErrorContext(ctx, "a token is not stored", "user", e.Key.User, "error", e.Err)
	},
	MassRejection: func(ctx context.Context, e tokens.MassRejection) {
		slog.ErrorContext(ctx, "the platform rejects the tokens of many users", "users", e.Users)
	},
	ConfigErrorDetected: func(ctx context.Context, e tokens.ConfigErrorDetected) {
		slog.ErrorContext(ctx, "the platform rejects the application", "error", e.Err)
	},
}

func (a *app) routes() http.Handler {
	mux := http.NewServeMux()
	mux.Handle(mountPath, a.connect)
	mux.HandleFunc("GET /{$}", a.home)
	mux.HandleFunc("POST /disconnect", a.disconnect)
	return http.NewCrossOriginProtection().Handler(mux) // no other site can disconnect a user
}

var homePage = template.Must(template.New("home").Parse(`<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>Example EHR</title></head>
<body>
<main>
<h1>Example EHR</h1>
{{with .Problem}}
<p>{{.Title}}</p>
{{if .Reauthorize}}<p>The dispensary is <strong>not connected</strong>. <a href="/dispensary/connect?return_to=/">Connect</a></p>{{end}}
{{else}}
<p>The dispensary is <strong>connected</strong> with {{.Clinic}}.</p>
<form method="post" action="/disconnect"><button>Disconnect</button></form>
{{end}}
</main>
</body>
</html>
`))

// home shows whether the practitioner is connected, and calls the platform as this user.
func (a *app) home(w http.ResponseWriter, r *http.Request) {
	var view struct {
		Clinic  string
		Problem *dispensary.Problem
	}
	client, err := a.users.Client(r.Context(), currentUser)
	if err == nil {
		clinic, failure := client.Clinic.Get(r.Context())
		if err = failure; err == nil {
			view.Clinic = clinic.Name
		}
	}
	if view.Problem = dispensary.ProblemOf(err); err != nil {
		slog.WarnContext(r.Context(), "clinic", "error", err)
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = homePage.Execute(w, view) // fails only if the browser has closed the connection
}

// disconnect revokes and deletes the token.
func (a *app) disconnect(w http.ResponseWriter, r *http.Request) {
	if err := a.users.Disconnect(r.Context(), currentUser); err != nil {
		slog.WarnContext(r.Context(), "disconnect", "error", err)
		problem := dispensary.ProblemOf(err)
		http.Error(w, problem.Title, problem.Status)
		return
	}
	http.Redirect(w, r, "/", http.StatusSeeOther)
}
