package health_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/dispensary-go/dispensary/health"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/memoryinbox"
)

// Serve health checks for the parts of a program.
func Example() {
	var router webhook.Router
	inbox, err := memoryinbox.New(memoryinbox.Config{Work: webhook.Work{Handle: router.Dispatch}})
	if err != nil {
		log.Fatal(err)
	}
	handler, err := health.New(health.Config{Checks: map[string]health.Check{
		"store": health.Store(tokenstore.NewMemoryStore()),
		"inbox": health.Inbox(inbox, 15*time.Minute),
	}})
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /healthz", handler)
	mux.Handle("GET /readyz", handler)
	handler.Check(context.Background()) // in your program: go handler.Run(ctx)

	response := httptest.NewRecorder()
	mux.ServeHTTP(response, httptest.NewRequest(http.MethodGet, "/readyz", nil))
	fmt.Print(response.Code, " ", response.Body)
	// Output:
	// 200 {"status":"ok","age_seconds":0,"checks":{"inbox":{"status":"ok","details":{"dead":0,"oldest_seconds":0,"overdue":0,"running":0,"waiting":0}},"store":{"status":"ok"}}}
}
