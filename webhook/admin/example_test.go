package admin_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/admin"
	"github.com/dispensary-go/dispensary/webhook/memoryinbox"
)

// The page is mounted behind the program's own login, and the actions of operators are
// recorded.
func Example() {
	died := make(chan struct{})
	inbox, err := memoryinbox.New(memoryinbox.Config{Work: webhook.Work{
		Handle: func(context.Context, events.Event) error {
			return webhook.Permanent(errors.New("no such clinic"))
		},
		Observer: webhook.Observer{AttemptEnd: func(context.Context, webhook.Attempt) { close(died) }},
	}})
	if err != nil {
		log.Fatal(err)
	}

	page, err := admin.New(admin.Config{
		Engine: inbox,
		Observer: admin.Observer{
			BodyOpened: func(r *http.Request, key webhook.Key) error {
				slog.InfoContext(r.Context(), "body opened", "user", userOf(r), "key", key.String())
				return nil // an error would keep the body hidden
			},
			Changed: func(r *http.Request, change admin.Change) {
				slog.InfoContext(r.Context(), "events changed", "user", userOf(r), "action", change.Action, "count", change.Count)
			},
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/ops/webhooks/", staffOnly(http.StripPrefix("/ops/webhooks", page)))
	server := httptest.NewServer(mux)
	defer server.Close()

	_, err = inbox.Accept(context.Background(), webhook.Delivery{
		Key:  webhook.Key{Environment: api.USSandbox, EventID: "evt_1"},
		Type: events.TypeClinicKeyActivated,
		Body: []byte(`{"event":{"id":"evt_1","type":"clinic_key.activated"}}`),
	})
	if err != nil {
		log.Fatal(err)
	}
	<-died
	for _, user := range []string{"", "jo"} {
		request, err := http.NewRequest(http.MethodGet, server.URL+"/ops/webhooks/events", nil)
		if err != nil {
			log.Fatal(err)
		}
		request.Header.Set("X-User", user)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			log.Fatal(err)
		}
		text, err := io.ReadAll(response.Body)
		if err != nil {
			log.Fatal(err)
		}
		_ = response.Body.Close()
		fmt.Println(response.StatusCode, strings.Contains(string(text), "evt_1"))
	}
	// Output:
	// 401 false
	// 200 true
}

// staffOnly stands for the program's login.
func staffOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if userOf(r) == "" {
			http.Error(w, "sign in", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func userOf(r *http.Request) string { return r.Header.Get("X-User") }
