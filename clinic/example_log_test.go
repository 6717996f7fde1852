package clinic_test

import (
	"fmt"
	"log/slog"
	"os"

	"github.com/dispensary-go/dispensary/clinic"
)

// The JSON handler encodes the elements of lists, and patients with them, unless it
// prints every value that is not plain.
func Example_logging() {
	logger := slog.New(slog.NewJSONHandler(os.Stdout, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			switch {
			case a.Key == slog.TimeKey:
				return slog.Attr{} // it would differ with every run of this example
			case a.Key != slog.LevelKey && a.Value.Kind() == slog.KindAny:
				a.Value = slog.StringValue(fmt.Sprint(a.Value.Any()))
			}
			return a
		},
	}))
	jane := clinic.Patient{ID: "pat-1", FirstName: "Jane", LastName: "Example"}
	logger.Info("one", "patient", jane)
	logger.Info("many", "patients", []clinic.Patient{jane})
	// Output:
	// {"level":"INFO","msg":"one","patient":{"type":"clinic.Patient","id":"pat-1"}}
	// {"level":"INFO","msg":"many","patients":"[clinic.Patient(pat-1)]"}
}
