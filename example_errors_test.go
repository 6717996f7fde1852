package dispensary_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// What a failed call means is asked with errors.Is.
func ExampleError() {
	platform := fake()
	defer platform.Close()
	client := platform.Client(model.User{})

	_, err := client.Clinic.Patients.Get(context.Background(), "unknown")
	switch {
	case errors.Is(err, dispensary.ErrReauthorize):
		fmt.Println("send the user to the authorization page")
	case errors.Is(err, dispensary.ErrRateLimited), errors.Is(err, api.ErrServer):
		fmt.Println("try again later")
	case errors.Is(err, dispensary.ErrNotFound):
		fmt.Println("there is no such patient")
	}
	// Output: there is no such patient
}

// The fields of an error are safe to log; its text holds no more than they do.
func ExampleError_fields() {
	platform := fake()
	defer platform.Close()
	reader := platform.Client(model.User{}, dispensary.WithTokenSource(platform.TokenSource(model.User{}, "catalog:read")))

	_, err := reader.Clinic.Patients.Create(context.Background(), clinic.PatientCreate{
		FirstName: "Ada", LastName: "Example", Email: "ada@example.com",
	})
	var failure *dispensary.Error
	if errors.As(err, &failure) {
		fmt.Println(failure.Operation, failure.Route, failure.StatusCode)
		fmt.Println("refused:", errors.Is(err, dispensary.ErrNotApplied), "- repeatable:", errors.Is(err, dispensary.ErrNotSent))
	}
	// Output:
	// patients.create /clinic/patients 403
	// refused: true - repeatable: false
}

// What cannot be sent never is: the error names every field, as the request does.
func Example_argumentErrors() {
	platform := fake()
	defer platform.Close()
	client := platform.Client(model.User{})

	_, err := client.Clinic.Patients.Create(context.Background(), clinic.PatientCreate{FirstName: "Ada", LastName: " "})
	fmt.Println(err)
	fmt.Println(errors.Is(err, api.ErrArgument), len(platform.Journal.Requests()), "requests")
	// Output:
	// dispensary: patients.create: email can't be blank, last_name can't be blank
	// true 0 requests
}

// A form shows each message beside its field, whichever side found it.
func ExampleProblemOf() {
	platform := fake()
	defer platform.Close()
	client := platform.Client(model.User{})

	save := func(form clinic.PatientCreate) {
		patient, err := client.Clinic.Patients.Create(context.Background(), form)
		if problem := dispensary.ProblemOf(err).For("email", "first_name", "last_name"); problem != nil {
			fmt.Println(problem.Status, problem.Title)
			fmt.Println("above the form:", problem.Other)
			fmt.Println("beside the e-mail:", problem.Fields["email"])
			return
		}
		fmt.Println("saved", patient.FirstName)
	}
	save(clinic.PatientCreate{FirstName: "Ada", LastName: "Example"})
	save(clinic.PatientCreate{FirstName: "Ada", LastName: "Example", Email: "jane.doe@example.org", MobileNumber: "555-0155"})
	save(clinic.PatientCreate{FirstName: "Ada", LastName: "Example", Email: "ada@example.com", MobileNumber: "+15125550155"})
	// Output:
	// 422 The dispensary does not accept this. Please check your entries.
	// above the form: []
	// beside the e-mail: [Email can't be blank]
	// 422 The dispensary does not accept this. Please check your entries.
	// above the form: [Mobile number must be in international form, a + and digits]
	// beside the e-mail: [Email has already been taken]
	// saved Ada
}

// A JSON endpoint responds with the problem of an error, as RFC 9457 describes it.
func ExampleProblem() {
	platform := fake()
	defer platform.Close()
	client := platform.Client(model.User{})

	patient := func(w http.ResponseWriter, r *http.Request) {
		patient, err := client.Clinic.Patients.Get(r.Context(), r.FormValue("id"))
		if problem := dispensary.ProblemOf(err); problem != nil {
			slog.WarnContext(r.Context(), "patient", "error", err)
			w.Header().Set("Content-Type", "application/problem+json")
			if wait := problem.RetryAfter; wait > 0 {
				w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
			}
			w.WriteHeader(problem.Status)
			_ = json.NewEncoder(w).Encode(problem)
			return
		}
		_ = json.NewEncoder(w).Encode(patient)
	}
	response := httptest.NewRecorder()
	patient(response, httptest.NewRequest(http.MethodGet, "/patient?id=unknown", nil))
	fmt.Println(response.Code, response.Body)
	// Output: 404 {"status":404,"title":"The dispensary does not have this record."}
}
