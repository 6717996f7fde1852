package dispensarytest

import (
	"context"
	"slices"
	"strings"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/httpapi"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/environ"
)

// Site returns the platform for a client: the sandbox of its region, the base URL of the API
// with the prefix /api, and the URL of the pages for a browser. Applications send their users
// to AuthURL + "/oauth/authorize".
func (s *Server) Site() dispensary.Site {
	return dispensary.Site{Environment: s.set.environment, BaseURL: s.origin + httpapi.BasePath, AuthURL: s.origin + httpapi.AuthPath}
}

// Variables returns environment variables for a program that uses the platform, in the form of
// [os.Environ]. It includes the variables of [dispensary.NewFromEnv], without a token, and the
// variables of package integration for this environment, such as
// DISPENSARY_US_SANDBOX_CLIENT_ID. A platform with several clinics has no variable for the
// clinic key, because the key applies to the calls of all users.
func (s *Server) Variables() []string {
	site, app := s.Site(), s.Application()
	baseURL, authURL := environ.Variables(site.Environment)
	prefix := strings.TrimSuffix(baseURL, "BASE_URL")
	variables := []string{
		baseURL + "=" + site.BaseURL, authURL + "=" + site.AuthURL,
		prefix + "CLIENT_ID=" + app.ClientID, prefix + "CLIENT_SECRET=" + app.ClientSecret, prefix + "REDIRECT_URL=" + app.RedirectURI,
		prefix + "WEBHOOK_SECRETS=" + app.WebhookSecret, prefix + "WEBHOOK_CHALLENGE=" + app.ChallengeToken,
	}
	if len(s.Clinics.All()) == 1 {
		variables = append(variables, prefix+"CLINIC_KEY="+s.ClinicKey())
	}
	return variables
}

// Client returns a client that calls as user, with a token of [Tokens]. The zero User is the
// first practitioner, and Client panics if the user is unknown. options follow the client's
// own options, which set the token and the transport. If an option is invalid, every call
// fails with the error of [dispensary.New].
func (s *Server) Client(user model.User, options ...dispensary.Option) *dispensary.Client {
	given := []dispensary.Option{
		dispensary.WithTransport(s.HTTPClient().Transport),
		dispensary.WithTokenSource(s.TokenSource(user)),
	}
	client, err := dispensary.New(s.Site(), slices.Concat(given, options)...)
	if err != nil {
		client, _ = dispensary.New(s.Site(), given[0], dispensary.WithTokenSource(unusable{err})) // these options are valid
	}
	return client
}

// unusable is the token source of a client with an invalid option.
type unusable struct{ err error }

func (u unusable) Token(context.Context) (api.AccessToken, error) {
	return api.AccessToken{}, u.err
}

// TokenSource returns a source of the user's token. It does not refresh the token after its
// end. Without scopes the token has the application's scopes. To test refreshes, use package
// oauth against the platform.
func (s *Server) TokenSource(user model.User, scopes ...string) api.TokenSource {
	token := s.Tokens.Issue(user, scopes...)
	return issued{api.AccessToken{
		Secret:      dispensary.NewSecret(token.AccessToken),
		Environment: s.Site().Environment,
		Account:     api.Account{OwnerType: token.User.Type, OwnerID: token.User.ID, ClinicID: token.User.ClinicID},
		ExpiresAt:   token.ExpiresAt,
	}}
}

type issued struct{ token api.AccessToken }

func (i issued) Token(context.Context) (api.AccessToken, error) { return i.token, nil }
