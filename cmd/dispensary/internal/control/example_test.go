package control_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/control"
	"github.com/dispensary-go/dispensary/dispensarytest"
)

// A program in any language can advance the platform's clock.
func ExampleNew() {
	fake, err := dispensarytest.Start(dispensarytest.WithTuning(dispensarytest.Tuning{Seed: 1}))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = fake.Close() }() // only closes the listener
	server := httptest.NewServer(http.StripPrefix("/control", control.New(fake, control.Options{})))
	defer server.Close()

	before := fake.Clock.Now()
	response, err := http.Post(server.URL+"/control/clock/advance", "application/json", strings.NewReader(`{"by":"2h"}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = response.Body.Close() // not read
	fmt.Println(response.Status, fake.Clock.Now().Sub(before) >= 2*3600e9)
	// Output: 200 OK true
}
