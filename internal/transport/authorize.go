package transport

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/operation"
)

var errNoTokens = errors.New("dispensary: the client has no token source: add WithAccessToken or WithTokenSource")

// authorize is the link that adds the token to the request. After a 401 it gets one fresh
// token and runs next once more. A second 401 is the response of the call, because only the
// token endpoint can tell whether the user or the platform is the reason. A platform that
// responds with 401 has not applied the write, so authorize repeats a write too. Without proof
// that the platform wrote the 401, it repeats only a read. See [lastResponse.fromPlatform].
//
// All tokens of a call must be for one account, see [accountPin].
func authorize(ctx context.Context, s *callState, next step) error {
	if !s.call.Operation.NeedsToken() {
		return next(ctx, s)
	}
	source := s.client.config.Tokens
	if source == nil {
		return &localError{cause: errNoTokens}
	}
	if s.pin = s.client.pin(ctx); s.pin == nil {
		s.pin = &s.account
	}
	token, err := source.Token(ctx)
	if err != nil {
		return &localError{cause: err}
	}
	if token, err = checkScope(ctx, s, source, token); err != nil {
		return err
	}
	if err := setBearer(s, token); err != nil {
		return &localError{cause: err}
	}
	err = next(ctx, s)
	if err != nil || s.last.status != http.StatusUnauthorized || !s.call.Operation.Read() && !s.last.fromPlatform("") {
		return err
	}
	if refresher, ok := source.(api.TokenRefresher); ok {
		return authorizeAgain(ctx, s, refresher, token, next)
	}
	return err
}

// authorizeAgain runs next once more with a newer token than the rejected one.
func authorizeAgain(ctx context.Context, s *callState, refresher api.TokenRefresher, rejected api.AccessToken, next step) error {
	fresh, err := refresher.Refresh(ctx, rejected)
	if err != nil {
		return &localError{cause: err}
	}
	if fresh.Secret == rejected.Secret {
		return nil // the response stays 401
	}
	if err := setBearer(s, fresh); err != nil {
		return &localError{cause: err}
	}
	return next(ctx, s)
}

// setBearer sets the Authorization header if the token belongs to the client's environment and
// to the account of the call.
func setBearer(s *callState, token api.AccessToken) error {
	if own := s.client.config.Site.Environment; token.Environment != own {
		return &environmentError{token: token.Environment, client: own}
	}
	if err := s.pin.keep(token.Account); err != nil {
		return err
	}
	if problem := TokenProblem(token.Secret.Reveal()); problem != "" {
		return &api.ArgumentError{Field: "AccessToken.Secret", Reason: problem}
	}
	header := s.bearer[:]
	if _, sent := s.request.Header["Authorization"]; sent { // a transport may still read it
		again := *s.request
		again.Header = headerForRetry(again.Header)
		s.request, header = &again, make([]string, 1)
	}
	header[0] = "Bearer " + token.Secret.Reveal()
	s.request.Header["Authorization"] = header
	return nil
}

type environmentError struct{ token, client api.Environment }

func (e *environmentError) Error() string {
	return "dispensary: wrong environment: the token is for " + e.token.String() + ", the client for " + e.client.String()
}

func (e *environmentError) Is(target error) bool { return target == api.ErrWrongEnvironment }

// TokenReloader is a token source that can search for a newer token without requesting one
// from the platform. A client calls it if the token lacks a scope that the API states for the
// call, because the user may have authorized again on another replica.
type TokenReloader interface {
	// Reload returns a token as Token does, after it has read the token store.
	Reload(ctx context.Context) (api.AccessToken, error)
}

// checkScope compares the scopes of the token with the scopes of the operation and returns the
// token to send. If the API states the scope and the token lacks it, the call fails without a
// request: the error names the scope, and a 403 may not. If the scope is an assumption, the
// call continues, because the assumption may be wrong, and a warning is logged once for each
// operation. A token with unknown scopes is sent.
func checkScope(ctx context.Context, s *callState, source api.TokenSource, token api.AccessToken) (api.AccessToken, error) {
	op := s.call.Operation
	missing := missingScope(op, token)
	if missing == "" {
		return token, nil
	}
	if reloader, ok := source.(TokenReloader); ok && op.ScopeStated {
		fresh, err := reloader.Reload(ctx)
		if err != nil {
			return token, &localError{cause: err}
		}
		if token, missing = fresh, missingScope(op, fresh); missing == "" {
			return token, nil
		}
	}
	s.missingScope = &api.ScopeError{Operation: op.Name, Scope: missing, Assumed: !op.ScopeStated}
	if op.ScopeStated {
		return token, &localError{cause: s.missingScope}
	}
	warnOfScope(ctx, s.client, s.missingScope)
	return token, nil
}

// missingScope returns the first scope that the operation needs and the token lacks, or "". It
// returns "" for a token without any known scope, because the API does not state how the
// platform writes scopes.
func missingScope(op *operation.Operation, token api.AccessToken) string {
	if op.ScopeVaries || token.Scope == "" {
		return ""
	}
	for scope := range strings.FieldsSeq(op.Scope) {
		if !token.HasScope(scope) && slices.ContainsFunc(operation.Scopes(), token.HasScope) {
			return scope
		}
	}
	return ""
}

// warnOfScope logs a missing assumed scope once for each operation.
func warnOfScope(ctx context.Context, c *Client, missing *api.ScopeError) {
	logger := c.config.Logger
	if logger == nil {
		return
	}
	if _, before := c.warned.LoadOrStore(missing.Operation, true); before {
		return
	}
	logger.LogAttrs(ctx, slog.LevelWarn, "dispensary: token lacks the assumed scope of an operation; sending the request anyway",
		slog.String("operation", missing.Operation), slog.String("scope", missing.Scope),
		slog.String("environment", c.config.Site.Environment.String()))
}
