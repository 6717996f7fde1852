package accounts

import (
	"context"
	"fmt"
	"net/http"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth/connect"
)

// Handler returns the pages that connect users. Mount it under a path, see [connect.Handler].
// Leave Connections of config empty, because Accounts sets it. With several environments, each
// user is sent to the platform of their environment. The redirect URLs of all applications
// must then have the same last path element.
func (a *Accounts) Handler(config connect.Config) (http.Handler, error) {
	if config.Connections != nil {
		return nil, &api.ArgumentError{Field: "connect.Config.Connections", Reason: "must be left empty"}
	}
	if config.User == nil {
		return nil, &api.ArgumentError{Field: "connect.Config.User", Reason: "is nil"}
	}
	router := &accountsHandler{accounts: a, user: config.User, handlers: map[*application]*connect.Handler{}}
	config.User = locatedUser
	for _, app := range a.order {
		config.Connections = app.conns
		handler, err := connect.New(config)
		if err != nil {
			return nil, err
		}
		router.handlers[app] = handler
	}
	return router, nil
}

// accountsHandler passes each request to the handler for the user's environment.
type accountsHandler struct {
	accounts *Accounts
	user     func(*http.Request) (string, error)
	handlers map[*application]*connect.Handler
}

type locatedKey struct{}

// located is the result of the user lookup for a request.
type located struct {
	user string
	err  error
}

// ServeHTTP implements [http.Handler].
func (h *accountsHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	bare := r.Clone(r.Context()) // the hook may log the request, so hide code and state
	bare.URL.RawQuery, bare.URL.ForceQuery = "", false
	bare.RequestURI = bare.URL.EscapedPath()
	bare.Form, bare.PostForm = nil, nil
	who, app := located{}, h.accounts.order[0]
	if who.user, who.err = h.user(bare); who.err == nil && app.conns.Key(who.user).Validate() == nil {
		found, err := h.accounts.locate(r.Context(), who.user)
		if err != nil { // the user is signed in, so this is not a missing session
			who.err = fmt.Errorf("%w: %w", connect.ErrUserLookup, err)
		} else {
			app = found
		}
	}
	h.handlers[app].ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), locatedKey{}, who)))
}

func locatedUser(r *http.Request) (string, error) {
	who, _ := r.Context().Value(locatedKey{}).(located)
	return who.user, who.err
}
