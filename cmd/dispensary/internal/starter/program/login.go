package main

import (
	"context"
	"errors"
	"net/http"

	"github.com/dispensary-go/dispensary/integration"
	"github.com/dispensary-go/dispensary/oauth/tokens"
)

// The functions of this file are placeholders for the login of your application: every visitor is
// the same user and an operator. Replace them before you go to production.

// signedIn returns the ID of the user of the session, as your application knows it.
func signedIn(*http.Request) (string, error) { return "dr-17", nil }

// isOperator reports whether the user of the session may see and replay events.
func isOperator(*http.Request) bool { return true }

// ownClinic decides whether a user may connect an account. Yours compares grant.Clinic.ID with
// the clinic of grant.Key.User in your database. Otherwise a user could connect an account of
// another clinic, whose patients would appear as yours.
func ownClinic(_ context.Context, grant tokens.Authorization) error {
	if grant.Clinic.ID == "" {
		return tokens.ErrUndecided // the clinic could not be read, so the user has to retry
	}
	return nil
}

// checkLogin rejects production while the functions above let everyone in. Remove it with them.
func checkLogin(config integration.Config) error {
	for _, application := range config.Applications {
		if !application.Site.Environment.IsSandbox() {
			return errors.New("login.go lets everyone in: replace its functions before you use a production environment")
		}
	}
	return nil
}
