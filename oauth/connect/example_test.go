package connect_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth/connect"
	"github.com/dispensary-go/dispensary/oauth/internal/oauthtest"
	"github.com/dispensary-go/dispensary/oauth/tokens"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// The handler serves the browser flow below a prefix. The browser goes to the platform with a
// state and returns with a code.
func ExampleHandler() {
	conns, err := tokens.NewConnections(tokens.Config{
		Client: oauthtest.ExampleClient(), // in a program: oauth.New(oauth.Config{…})
		Store:  tokenstore.NewMemoryStore(),
	})
	if err != nil {
		log.Fatal(err)
	}
	handler, err := connect.New(connect.Config{
		Connections: conns,
		StateKeys:   []api.Secret{api.NewSecret("32-random-bytes-of-a-secret-store")},
		User:        func(*http.Request) (string, error) { return "dr-17", nil }, // from your session
		Done: func(w http.ResponseWriter, _ *http.Request, result *connect.Result) {
			fmt.Println(result.Outcome, result.Key.User, result.ReturnTo)
			connect.DefaultPage(w, result) // same response as without a hook
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/dispensary/", handler)

	leaving := httptest.NewRecorder()
	mux.ServeHTTP(leaving, httptest.NewRequest(http.MethodGet, "https://ehr.example/dispensary/connect?return_to=/patients/7", nil))
	platform, _ := leaving.Result().Location()

	back := httptest.NewRequest(http.MethodGet, "https://ehr.example/dispensary/callback?code=4f7e&state="+platform.Query().Get("state"), nil)
	back.AddCookie(leaving.Result().Cookies()[0])
	arriving := httptest.NewRecorder()
	mux.ServeHTTP(arriving, back)
	fmt.Println(arriving.Code, arriving.Header().Get("Location"))
	// Output:
	// connected dr-17 /patients/7
	// 303 /patients/7
}
