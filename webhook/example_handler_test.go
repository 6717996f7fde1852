package webhook_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/memoryinbox"
)

// A complete receiver: functions for the events of interest, an inbox that works
// them off, and a handler mounted in the program's own server. The second half
// plays the platform, which signs and sends an event.
func ExampleHandler() {
	var router webhook.Router
	router.OnOrderPlaced(func(_ context.Context, order events.OrderEvent) error {
		fmt.Println("handled order", order.Data.OrderNumber, "of clinic", order.ClinicID)
		return nil
	})
	inbox, err := memoryinbox.New(memoryinbox.Config{Work: webhook.Work{Handle: router.Dispatch}})
	if err != nil {
		log.Fatal(err)
	}
	handler, err := webhook.NewHandler(webhook.HandlerConfig{
		Environment: api.Environment{Region: api.US, Stage: api.Sandbox},
		Secrets:     []api.Secret{"the webhook secret key"},
		Challenge:   "the challenge token",
		Inbox:       inbox,
	})
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/webhooks/dispensary", handler)
	server := httptest.NewServer(mux)
	defer server.Close()

	body := `{"event":{"id":"evt_1","type":"order.placed","clinic_id":"cl_1","integration_id":"in_1","data":{"order":{"id":"or_1","order_number":"R100"}}}}`
	timestamp := strconv.FormatInt(time.Now().Unix(), 10)
	mac := hmac.New(sha256.New, []byte("the webhook secret key"))
	mac.Write([]byte(timestamp + "." + body))
	signature := "t=" + timestamp + ",v1=" + hex.EncodeToString(mac.Sum(nil))

	for _, header := range []string{signature, signature, "t=" + timestamp + ",v1=" + strings.Repeat("0", 64)} {
		request, err := http.NewRequest(http.MethodPost, server.URL+"/webhooks/dispensary", strings.NewReader(body))
		if err != nil {
			log.Fatal(err)
		}
		request.Header.Set(webhook.SignatureHeader, header)
		response, err := server.Client().Do(request)
		if err != nil {
			log.Fatal(err)
		}
		answer, err := io.ReadAll(response.Body)
		if err != nil {
			log.Fatal(err)
		}
		_ = response.Body.Close()
		fmt.Println(response.StatusCode, strings.TrimSpace(string(answer)))
	}
	if err := inbox.Close(context.Background()); err != nil {
		log.Fatal(err)
	}
	// Unordered output:
	// 200 {"challenge":"the challenge token"}
	// 200 {"challenge":"the challenge token"}
	// 401 Unauthorized
	// handled order R100 of clinic cl_1
}
