package dispensarytest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// The worst moment for a lost connection: the platform has done its work, but the caller does
// not know.
func ExampleServer_Fault() {
	fake, err := dispensarytest.Start(dispensarytest.WithInMemory())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = fake.Close() }()
	lost := fake.Fault(model.Fault{Operation: "patients.create", Effect: model.EffectDropAfterCommit, Times: 1})

	_, err = fake.Client(model.User{}).Do(context.Background(), dispensary.RawRequest{
		Method: "POST", Path: "/clinic/patients",
		Body: map[string]string{"first_name": "Ida", "last_name": "Moor", "email": "ida@example.org"},
	})
	fmt.Println("may have been applied:", errors.Is(err, dispensary.ErrMaybeApplied))
	fmt.Println(lost.Fault, "fired:", lost.Fired())
	fmt.Println("patients:", len(fake.Patients.All()))
	// Output:
	// may have been applied: true
	// drop_after_commit of patients.create fired: 1
	// patients: 6
}

// The command "dispensary probe" writes such a file about your sandbox.
func ExampleWithBehaviorsFile() {
	fake, err := dispensarytest.Start(dispensarytest.WithInMemory(), dispensarytest.WithBehaviorsFile("testdata/behaviors.json"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = fake.Close() }()
	fmt.Println(slices.Contains(fake.Behaviors(), behavior.RefreshRotationGrace))
	// Output: true
}
