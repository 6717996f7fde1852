package dispensary_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/dispensary-go/dispensary"
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
	case errors.Is(err, dispensary.ErrRateLimited), errors.Is(err, dispensary.ErrServer):
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
	reader := platform.Client(model.User{}).WithTokenSource(platform.TokenSource(model.User{}, "catalog:read"))

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
	fmt.Println(errors.Is(err, dispensary.ErrArgument), platform.Journal().Len(), "requests")
	// Output:
	// dispensary: patients.create: email can't be blank, last_name can't be blank
	// true 0 requests
}

// A form shows each message beside its field, whichever side found it.
func ExampleFieldErrors() {
	platform := fake()
	defer platform.Close()
	client := platform.Client(model.User{})

	save := func(form clinic.PatientCreate) {
		patient, err := client.Clinic.Patients.Create(context.Background(), form)
		if fields := dispensary.FieldErrors(err); fields != nil {
			fmt.Println("above the form:", fields[""])
			fmt.Println("beside the e-mail:", fields["email"])
			fmt.Println("beside the number:", fields["mobile_number"])
			return
		}
		if err != nil {
			fmt.Println("try again later")
			return
		}
		fmt.Println("saved", patient.FirstName)
	}
	save(clinic.PatientCreate{FirstName: "Ada", LastName: "Example"})
	save(clinic.PatientCreate{FirstName: "Ada", LastName: "Example", Email: "jane.doe@example.org", MobileNumber: "555-0155"})
	save(clinic.PatientCreate{FirstName: "Ada", LastName: "Example", Email: "ada@example.com", MobileNumber: "+15125550155"})
	// Output:
	// above the form: []
	// beside the e-mail: [Email can't be blank]
	// beside the number: []
	// above the form: []
	// beside the e-mail: [Email has already been taken]
	// beside the number: [Mobile number must be in international form, a + and digits]
	// saved Ada
}
