package dispensarytest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// Start the whole platform without a socket, with a ready client. In a test,
// [dispensarytest.New] starts the platform and closes it with the test.
func ExampleStart() {
	fake, err := dispensarytest.Start(dispensarytest.WithInMemory())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = fake.Close() }()
	clinic, err := fake.Client(fake.Users()[0]).Clinic.Get(context.Background())
	fmt.Println(clinic.Name, err)
	// Output: Maple Hollow Integrative Clinic <nil>
}

// Receive webhooks without a socket. The platform signs its events, delivers them to the
// handler, and requires the challenge.
func ExampleWebhooks_RegisterHandler() {
	fake, err := dispensarytest.Start(dispensarytest.WithInMemory(), dispensarytest.WithBehavior(behavior.DeliveryConditionsOff))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = fake.Close() }()
	receiver := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var sent struct{ Event struct{ Type string } }
		_ = json.NewDecoder(r.Body).Decode(&sent)
		fmt.Println("received", sent.Event.Type, "signed:", r.Header.Get("SVC-Signature") != "")
		_ = json.NewEncoder(w).Encode(map[string]string{"challenge": fake.Application().ChallengeToken})
	})
	if _, err := fake.Clinics.ActivateKey(fake.ClinicKey()); err != nil {
		fmt.Println(err)
		return
	}
	if err := fake.Webhooks.RegisterHandler(receiver, model.EventOrderPlaced); err != nil {
		fmt.Println(err)
		return
	}
	jane := fake.Patients.All()[0]
	_, event, err := fake.Orders.Place(jane.ID, model.OrderCreate{})
	fmt.Println("ordered:", err == nil)
	fmt.Println("delivered:", fake.Webhooks.WaitDelivered(context.Background(), event.ID) == nil)
	// Unordered output:
	// ordered: true
	// received order.placed signed: true
	// delivered: true
}

// Run all retries on a frozen clock. Advance makes every retry that becomes due before it
// returns.
func ExampleClock_Advance() {
	clock := dispensarytest.FrozenClock(time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC))
	fake, err := dispensarytest.Start(dispensarytest.WithInMemory(), dispensarytest.WithClock(clock), dispensarytest.WithBehavior(behavior.DeliveryConditionsOff))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = fake.Close() }()
	down := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	if _, err := fake.Clinics.ActivateKey(fake.ClinicKey()); err != nil {
		fmt.Println(err)
		return
	}
	if err := fake.Webhooks.RegisterHandler(down); err != nil {
		fmt.Println(err)
		return
	}
	if _, _, err := fake.Patients.Create(model.PatientCreate{}); err != nil {
		fmt.Println(err)
		return
	}
	clock.Advance(24 * time.Hour)
	for _, attempt := range fake.Webhooks.Deliveries()[0].Attempts {
		fmt.Println(attempt.At.Format("15:04"), attempt.Err)
	}
	// Output:
	// 09:00 status 503 is neither 200 nor 201
	// 09:01 status 503 is neither 200 nor 201
	// 09:06 status 503 is neither 200 nor 201
	// 09:36 status 503 is neither 200 nor 201
	// 10:36 status 503 is neither 200 nor 201
	// 15:36 status 503 is neither 200 nor 201
}

// Walk through an application's authorization flow on the platform's pages. The platform's
// network hosts the application, without a socket.
func ExampleBrowser_Authorize() {
	const application = "https://ehr.example.com"
	fake, err := dispensarytest.Start(dispensarytest.WithInMemory(), dispensarytest.WithRedirectURI(application+"/callback"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = fake.Close() }()
	mux := http.NewServeMux()
	mux.HandleFunc("/connect", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, fake.Site().AuthURL+"/oauth/authorize?response_type=code&state=s1&client_id="+fake.Application().ClientID+
			"&redirect_uri="+application+"/callback", http.StatusSeeOther)
	})
	mux.HandleFunc("/callback", func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprint(w, "state ", r.FormValue("state"), ", a code: ", r.FormValue("code") != "")
	})
	if err := fake.Host(application, mux); err != nil {
		fmt.Println(err)
		return
	}
	response, err := fake.Browser(fake.Users()[0]).Authorize(context.Background(), application+"/connect")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = response.Body.Close() }()
	page, _ := io.ReadAll(response.Body)
	fmt.Println(string(page))
	// Output: state s1, a code: true
}

// Add scopes to the application. This invalidates every token.
func ExampleTokens_ExtendScopes() {
	fake, err := dispensarytest.Start(dispensarytest.WithInMemory(), dispensarytest.WithScopes("clinic:read"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = fake.Close() }()
	client := fake.Client(model.User{})
	_, err = client.Clinic.Get(context.Background())
	fmt.Println(err)
	fmt.Println(fake.Tokens.ExtendScopes("patients:read"))
	_, err = client.Clinic.Get(context.Background())
	fmt.Println(errors.Is(err, api.ErrUnauthorized))
	// Output:
	// <nil>
	// <nil>
	// true
}
