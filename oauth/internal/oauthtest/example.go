package oauthtest

import (
	"net/http"

	"github.com/dispensary-go/dispensary/oauth"
)

// ExampleClient is a client of a platform that issues tokens and then says that it does
// not know their refresh tokens.
func ExampleClient() *oauth.Client {
	platform := NewPlatform(RotateAtOnce)
	platform.Around = func(string, func() *http.Response) (*http.Response, error) {
		return Respond(http.StatusUnauthorized, `{"error":"invalid_grant"}`), nil
	}
	config := Config(platform)
	config.RedirectURL = "https://ehr.example/dispensary/callback"
	client, err := oauth.New(config)
	if err != nil {
		panic(err)
	}
	return client
}
