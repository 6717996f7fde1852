package oauthtest

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth"
)

// ExamplePlatform stands for the platform: it issues one token and then says
// that it does not know its refresh token.
func ExamplePlatform() *httptest.Server {
	issued := false
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if issued {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"error":"invalid_grant","error_description":"The refresh token is invalid."}`)
			return
		}
		issued = true
		fmt.Fprint(w, `{"oauth":{"access_token":"b2d8","token_type":"Bearer","expires_in":7200,"refresh_token":"91ac",
			"scope":"catalog:read clinic:read","created_at":"2026-03-04T12:00:00Z",
			"resource_owner":{"id":"0a1b","type":"Practitioner"}}}`)
	}))
}

// ExampleClient is a client of [ExamplePlatform].
func ExampleClient(server *httptest.Server) *oauth.Client {
	client, err := oauth.New(oauth.Config{
		Site: api.Site{
			Environment: api.Environment{Region: api.US, Stage: api.Sandbox},
			BaseURL:     server.URL + "/api", // the addresses that the platform gave you
			AuthURL:     server.URL,
		},
		ClientID:     "my-app",
		ClientSecret: "from-your-secret-store",
		RedirectURL:  "https://ehr.example/dispensary/callback",
	})
	if err != nil {
		panic(err)
	}
	return client
}
