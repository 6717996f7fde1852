package transport

import (
	"context"
	"errors"
	"net/http"

	"github.com/dispensary-go/dispensary/api"
)

var errNoTokens = errors.New("dispensary: the client has no token source: give it one with WithTokenSource")

// authorize gives the request its token and runs next. An answer of 401 is met
// with one fresh token and one more run; 401 again is the answer of the call, and
// whether it is the user's or the platform's trouble is for the token endpoint to
// tell. A platform that answers 401 has not done what was asked, so a write may be
// repeated too.
func (x *exchange) authorize(ctx context.Context, next func(context.Context) error) error {
	if !x.call.Operation.NeedsToken() {
		return next(ctx)
	}
	source := x.client.config.Tokens
	if source == nil {
		return &ownError{cause: errNoTokens}
	}
	token, err := source.Token(ctx)
	if err != nil {
		return &ownError{cause: err}
	}
	if token, err = x.preflight(ctx, source, token); err != nil {
		return err
	}
	if err := x.bear(token); err != nil {
		return err
	}
	err = next(ctx)
	refresher, ok := source.(api.TokenRefresher)
	if err != nil || x.status != http.StatusUnauthorized || !ok {
		return err
	}
	fresh, err := refresher.Refresh(ctx, token)
	if err != nil {
		return &ownError{cause: err, answered: true}
	}
	if fresh.Secret == token.Secret {
		return nil // the answer stays 401
	}
	if err := x.bear(fresh); err != nil {
		return err
	}
	err = next(ctx)
	if err == nil && x.status == http.StatusUnauthorized {
		refresher.Refused(ctx, fresh)
	}
	return err
}

// bear puts the token on the request, if it belongs to the client's environment.
func (x *exchange) bear(token api.AccessToken) error {
	if token.Environment != x.client.config.Site.Environment {
		return &ownError{cause: &environmentError{token: token.Environment, client: x.client.config.Site.Environment}}
	}
	if token.Secret == "" {
		return &ownError{cause: &api.ArgumentError{Field: "AccessToken.Secret", Reason: "is empty"}}
	}
	if problem := headerProblem(token.Secret.Reveal()); problem != "" {
		return &ownError{cause: &api.ArgumentError{Field: "AccessToken.Secret", Reason: problem}}
	}
	if _, sent := x.request.Header["Authorization"]; sent {
		again := *x.request.Request
		again.Header = x.headerAgain(again.Header)
		x.request.Request = &again
	}
	x.request.Header["Authorization"] = []string{"Bearer " + token.Secret.Reveal()}
	return nil
}

type environmentError struct{ token, client api.Environment }

func (e *environmentError) Error() string {
	return "dispensary: wrong environment: the token is for " + e.token.String() + ", the client for " + e.client.String()
}

func (e *environmentError) Is(target error) bool { return target == api.ErrWrongEnvironment }
