package accounts

import (
	"context"
	"net/http"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/oauth"
)

// Handler returns the pages that connect users, to be mounted under a path; see
// [oauth.Handler]. Client and Store of config are put in by Accounts and must be
// left empty. Where there are several environments, each user goes to the
// platform of their own; the redirect addresses of all applications then have to
// have the same last element.
func (a *Accounts) Handler(config oauth.HandlerConfig) (http.Handler, error) {
	if config.Client != nil || config.Store != nil {
		return nil, &dispensary.ArgumentError{Field: "oauth.HandlerConfig", Reason: "must leave Client and Store to Accounts"}
	}
	if config.User == nil {
		return nil, &dispensary.ArgumentError{Field: "oauth.HandlerConfig.User", Reason: "is nil"}
	}
	router := &accountsHandler{accounts: a, user: config.User, handlers: map[*application]*oauth.Handler{}}
	config.User, config.Store = locatedUser, a.config.Store
	for _, app := range a.order {
		config.Client = app.oauth
		handler, err := oauth.NewHandler(config)
		if err != nil {
			return nil, err
		}
		router.handlers[app] = handler
	}
	return router, nil
}

// accountsHandler sends each user to the handler of their environment.
type accountsHandler struct {
	accounts *Accounts
	user     func(*http.Request) (string, error)
	handlers map[*application]*oauth.Handler
}

type locatedKey struct{}

// located is who a request comes from.
type located struct {
	user string
	err  error
}

// ServeHTTP implements [http.Handler].
func (h *accountsHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	bare := r.Clone(r.Context()) // the hook may log what it sees: no code, no state
	bare.URL.RawQuery, bare.RequestURI = "", bare.URL.EscapedPath()
	who, app := located{}, h.accounts.order[0]
	if who.user, who.err = h.user(bare); who.err == nil {
		var found *application
		if found, who.err = h.accounts.of(r.Context(), who.user); who.err == nil {
			app = found
		}
	}
	h.handlers[app].ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), locatedKey{}, who)))
}

func locatedUser(r *http.Request) (string, error) {
	who, _ := r.Context().Value(locatedKey{}).(located)
	return who.user, who.err
}
