package oauth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/oauth2"

	"github.com/dispensary-go/dispensary/api"
)

// FromOAuth2 returns a token source that authorizes calls in environment with tokens from
// golang.org/x/oauth2. It has the limits of that library:
//
//   - A call with a 401 response is not repeated with a fresh token.
//   - If the context of a caller ends, the caller returns but the call to source continues,
//     because its Token method accepts no context. Only one such call runs at a time.
//   - A token with an expiry is reused until 10 seconds before it, without a call to source.
//   - No token is stored, and several processes refresh independently of each other.
//   - The environment is not verified.
//
// The text of a [*oauth2.RetrieveError] does not show the body of the response. With the code
// invalid_grant, it matches [api.ErrReauthorize].
func FromOAuth2(source oauth2.TokenSource, environment api.Environment) api.TokenSource {
	return &foreignSource{source: source, environment: environment, turn: make(chan struct{}, 1)}
}

type foreignSource struct {
	source      oauth2.TokenSource
	environment api.Environment
	turn        chan struct{} // contains one element while source.Token runs
	current     atomic.Pointer[api.AccessToken]
}

// Format keeps fmt from reading the unexported token.
func (s *foreignSource) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "oauth.FromOAuth2") }

// foreignMargin is the time before expiry at which x/oauth2 itself considers a token expired.
const foreignMargin = 10 * time.Second

func (s *foreignSource) Token(ctx context.Context) (api.AccessToken, error) {
	if token := s.held(); token != nil {
		return *token, nil
	}
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return api.AccessToken{}, ctx.Err()
	}
	type outcome struct {
		token api.AccessToken
		err   error
	}
	done := make(chan outcome, 1)
	go func() {
		o := outcome{err: errors.New("oauth: the x/oauth2 token source ended without a result")} // in case of runtime.Goexit
		defer func() {
			if v := recover(); v != nil {
				o.err = fmt.Errorf("oauth: the x/oauth2 token source panicked with a %T", v)
			}
			<-s.turn
			done <- o
		}()
		o.token, o.err = s.ask()
	}()
	select {
	case o := <-done:
		return o.token, o.err
	case <-ctx.Done():
		return api.AccessToken{}, ctx.Err()
	}
}

// held returns the last token, or nil unless it is known to be valid.
func (s *foreignSource) held() *api.AccessToken {
	token := s.current.Load()
	if token == nil || token.ExpiresAt.IsZero() || !time.Now().Before(token.ExpiresAt.Add(-foreignMargin)) {
		return nil
	}
	return token
}

func (s *foreignSource) ask() (api.AccessToken, error) {
	if token := s.held(); token != nil {
		return *token, nil // another caller fetched it while this one waited
	}
	got, err := s.source.Token()
	switch {
	case err != nil:
		return api.AccessToken{}, &foreignError{err}
	case got == nil || got.AccessToken == "":
		return api.AccessToken{}, errors.New("oauth: the x/oauth2 token source returned no token")
	}
	token := api.AccessToken{Secret: api.NewSecret(got.AccessToken), Environment: s.environment, ExpiresAt: got.Expiry.Round(0)}
	token.Scope, _ = got.Extra("scope").(string)
	s.current.Store(&token)
	return token, nil
}

// foreignError hides the response in the text of x/oauth2's errors.
type foreignError struct{ err error }

func (e *foreignError) Error() string {
	const prefix = "oauth: x/oauth2 token source: "
	var answer *oauth2.RetrieveError
	if !errors.As(e.err, &answer) {
		return prefix + e.err.Error()
	}
	text := prefix + "the token endpoint rejected the request"
	if isErrorCode(answer.ErrorCode) && answer.ErrorCode != "" {
		text += ": " + answer.ErrorCode
	}
	if answer.Response != nil {
		text += " (status " + strconv.Itoa(answer.Response.StatusCode) + ")"
	}
	return text
}

func (e *foreignError) Unwrap() error { return e.err }

func (e *foreignError) Is(target error) bool {
	var answer *oauth2.RetrieveError
	return target == api.ErrReauthorize && errors.As(e.err, &answer) && answer.ErrorCode == "invalid_grant"
}
