package clinic_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"time"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// connect starts a fake platform with its small data set, and returns a client with the token
// of its first practitioner. Your program gets its client from dispensary.New.
func connect() (*dispensarytest.Server, *dispensary.Client) {
	platform, err := dispensarytest.Start()
	if err != nil {
		log.Fatal(err)
	}
	return platform, platform.Client(model.User{})
}

func ExampleService_Get() {
	platform, client := connect()
	defer platform.Close()

	practice, err := client.Clinic.Get(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(practice.Name)
	fmt.Println(practice.PatientCount, "patients,", practice.PractitionerCount, "practitioners")
	fmt.Printf("%g %% off every order\n", practice.Discount)
	// Output:
	// Maple Hollow Integrative Clinic
	// 5 patients, 2 practitioners
	// 10 % off every order
}

func ExampleAddresses_ListForPatient() {
	platform, client := connect()
	defer platform.Close()

	patientID := platform.Patients.All()[1].ID
	for address, err := range client.Clinic.Addresses.ListForPatient(patientID).All(context.Background()) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(address.Address1, address.Address2)
		fmt.Println(address.City, address.State, address.Zipcode)
	}
	// Output:
	// 112 Example Street Unit 4
	// Portland OR 97202
}

// List the products of one of the clinic's categories.
func ExampleCategories_Products() {
	platform, client := connect()
	defer platform.Close()
	ctx := context.Background()

	page, err := client.Clinic.Categories.List().Page(ctx)
	if err != nil {
		log.Fatal(err)
	}
	category := page.Items[7]
	fmt.Println(category.Name + ":")
	for product, err := range client.Clinic.Categories.Products(category.ID).All(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("-", product.Name)
	}
	// Output:
	// Sleep:
	// - Chamomile Evening Drops
	// - Lavender Night Gels
	// - Magnesium Glycinate
	// - Melatonin Strips
	// - Sleep Formula
}

// List the orders from one treatment plan, the latest first.
func ExampleOrders_List() {
	platform, client := connect()
	defer platform.Close()

	plan := platform.Plans.All()[0]
	options := clinic.OrderListOptions{
		TreatmentPlanID: plan.ID,
		CompletedSince:  time.Date(2020, time.January, 1, 0, 0, 0, 0, time.UTC),
		SortBy:          clinic.OrderSortCompletion,
		SortOrder:       api.SortOrderDescending,
	}
	for order, err := range client.Clinic.Orders.List(options).All(context.Background()) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(order.OrderNumber, order.PaymentTotal, len(order.VariantIDs), "variants")
	}
	// Output: R410000001 88.15 2 variants
}

func ExamplePatients_Create() {
	platform, client := connect()
	defer platform.Close()

	patient, err := client.Clinic.Patients.Create(context.Background(), clinic.PatientCreate{
		FirstName:        "Ada",
		LastName:         "Example",
		Email:            "ada@example.com",
		DateOfBirth:      dispensary.Date{Year: 1985, Month: 12, Day: 10},
		SendWelcomeEmail: dispensary.Value(false), // otherwise the platform sends her an e-mail
		Metadata:         clinic.Metadata{ID: "ehr-4711"},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(patient.FirstName, patient.DateOfBirth, patient.Metadata.ID)
	// Output: Ada 1985-12-10 ehr-4711
}

// An e-mail address belongs to only one patient on the whole platform. The messages of the
// platform are for the user and may repeat input, so do not log them.
func ExamplePatients_Create_duplicate() {
	platform, client := connect()
	defer platform.Close()

	_, err := client.Clinic.Patients.Create(context.Background(), clinic.PatientCreate{
		FirstName: "Jane", LastName: "Doe", Email: "jane.doe@example.org",
	})
	var failure *dispensary.Error
	if errors.Is(err, dispensary.ErrValidation) && errors.As(err, &failure) {
		fmt.Println(failure.StatusCode, failure.Messages())
	}
	// Output: 422 [Email has already been taken]
}

// Ensure finds a patient by your metadata ID, or creates it. You can repeat the call, even
// after a lost response.
func ExamplePatients_Ensure() {
	platform, client := connect()
	defer platform.Close()

	for range 2 {
		patient, created, err := client.Clinic.Patients.Ensure(context.Background(), clinic.PatientCreate{
			FirstName: "Ada", LastName: "Example", Email: "ada@example.com", Metadata: clinic.Metadata{ID: "ehr-4711"},
		})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(patient.Email, created)
	}
	// Output:
	// ada@example.com true
	// ada@example.com false
}

// An update contains only the changes. It keeps fields that are left out, and clears fields
// that are null.
func ExamplePatients_Update() {
	platform, client := connect()
	defer platform.Close()

	id := platform.Patients.All()[0].ID
	patient, err := client.Clinic.Patients.Update(context.Background(), id, clinic.PatientUpdate{
		LastName:     dispensary.Value("Doe-Example"),
		MobileNumber: dispensary.Null[string](),
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s %s, %q\n", patient.FirstName, patient.LastName, patient.MobileNumber)
	// Output: Jane Doe-Example, ""
}

// Searches and lists return only enough to choose a patient. Get returns all fields.
func ExamplePatients_Search() {
	platform, client := connect()
	defer platform.Close()
	ctx := context.Background()

	for found, err := range client.Clinic.Patients.Search(clinic.PatientSearchOptions{Query: "jane doe"}).All(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		patient, err := client.Clinic.Patients.Get(ctx, found.ID)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(patient.Email, patient.DateOfBirth, patient.Gender)
	}
	// Output: jane.doe@example.org 1984-03-12 female
}

// A patient always prints and logs only its type and ID.
func ExamplePatient() {
	patient := clinic.Patient{ID: "p-1", FirstName: "Jane", LastName: "Doe", Email: "jane.doe@example.org"}
	fmt.Printf("%v\n%+v\n%s\n", patient, []clinic.Patient{patient}, &patient)
	// Output:
	// clinic.Patient(p-1)
	// [clinic.Patient(p-1)]
	// clinic.Patient(p-1)
}

func ExamplePractitioners_Create() {
	platform, client := connect()
	defer platform.Close()

	typeID := platform.Practitioners.All()[0].TypeID // see the catalog's practitioner types
	practitioner, err := client.Clinic.Practitioners.Create(context.Background(), clinic.PractitionerCreate{
		PractitionerTypeID: typeID, FirstName: "Grace", LastName: "Example", Email: "grace@example.com",
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(practitioner.FirstName, practitioner.PractitionerTypeID == typeID)
	// Output: Grace true
}

func ExampleStaff_Update() {
	platform, client := connect()
	defer platform.Close()
	ctx := context.Background()

	page, err := client.Clinic.Staff.List().Page(ctx)
	if err != nil {
		log.Fatal(err)
	}
	member, err := client.Clinic.Staff.Update(ctx, page.Items[0].ID, clinic.StaffMemberUpdate{
		Metadata: dispensary.Value(clinic.Metadata{ID: "ehr-staff-1"}),
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(member.FirstName, member.LastName, member.Metadata.ID)
	// Output: Joan Pettigrew ehr-staff-1
}

// ByMetadataID finds a patient by the ID in your own system.
func ExamplePatients_ByMetadataID() {
	platform, client := connect()
	defer platform.Close()

	patient, err := client.Clinic.Patients.ByMetadataID(context.Background(), "ehr-1001")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(patient.Email)

	_, err = client.Clinic.Patients.ByMetadataID(context.Background(), "ehr-9999")
	fmt.Println(errors.Is(err, dispensary.ErrNotFound))
	// Output:
	// jane.doe@example.org
	// true
}

// The JSON handler encodes the elements of lists, including patients, unless ReplaceAttr
// prints every value that is not plain.
func Example_logging() {
	logger := slog.New(slog.NewJSONHandler(os.Stdout, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			switch {
			case a.Key == slog.TimeKey:
				return slog.Attr{} // the time would change the output of this example
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
