package dispensary_test

import (
	"context"
	"log"
	"log/slog"
	"os"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// A logger receives every attempt, and never an address, a body or a token.
func ExampleWithLogger() {
	platform := fake()
	defer platform.Close()
	handler := slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: stable})
	client := platform.Client(model.User{}, dispensary.WithLogger(slog.New(handler)))

	_, err := client.Clinic.Patients.Search(context.Background(), clinic.PatientSearchOptions{Query: "jane doe"})
	if err != nil {
		log.Fatal(err)
	}
	// Output: level=DEBUG msg="dispensary request" operation=patients.search method=GET route=/clinic/search/patients environment=us/sandbox attempt=1 status=200
}

// stable leaves out what differs from run to run.
func stable(_ []string, a slog.Attr) slog.Attr {
	switch a.Key {
	case slog.TimeKey, "duration", "request_id":
		return slog.Attr{}
	}
	return a
}
