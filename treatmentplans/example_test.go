package treatmentplans_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/treatmentplans"
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

// Create a plan as a draft. Activating it sends it to the patient.
func ExampleService_Create() {
	platform, client := connect()
	defer platform.Close()
	ctx, p := context.Background(), platform

	plan, err := client.TreatmentPlans.Create(ctx, p.Patients.All()[0].ID, treatmentplans.PlanCreate{
		PractitionerID: p.Practitioners.All()[0].ID,
		State:          treatmentplans.StateDraft,
		Recommendations: []treatmentplans.Recommendation{{
			VariantID:       p.Products.All()[27].VariantIDs[0],
			UnitsToPurchase: 1,
			Refill:          true,
			Dosage: treatmentplans.Dosage{
				Amount: "1-2", Frequency: treatmentplans.FrequencyEveryNight, Duration: treatmentplans.DurationAsNeeded, Format: treatmentplans.FormatCapsule,
			},
		}},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(plan.State)

	plan, err = client.TreatmentPlans.Activate(ctx, plan.ID)
	if err != nil {
		log.Fatal(err)
	}
	dosage := plan.Recommendations[0].Dosage
	fmt.Println(plan.State, "-", dosage.Amount, dosage.Format, dosage.Frequency)
	// Output:
	// draft
	// active - 1-2 capsule every night
}

// Start with the practitioner's own dosage, or else the manufacturer's.
func ExampleDosageOf() {
	platform, client := connect()
	defer platform.Close()

	id := platform.Products.All()[2].ID
	product, err := client.Catalog.Products.Get(context.Background(), id)
	if err != nil {
		log.Fatal(err)
	}
	recommendation := treatmentplans.Recommendation{
		VariantID: product.Variants[0].ID, UnitsToPurchase: 1,
		Dosage: treatmentplans.DosageOf(cmp.Or(product.CustomDosage, product.Dosage)),
	}
	fmt.Println(recommendation.Dosage.Amount, recommendation.Dosage.Frequency)
	// Output: 2 every morning
}

// An update replaces the recommendations and changes the other fields that it sets.
func ExampleService_Update() {
	platform, client := connect()
	defer platform.Close()
	ctx := context.Background()

	plan, err := client.TreatmentPlans.Get(ctx, platform.Plans.All()[0].ID)
	if err != nil {
		log.Fatal(err)
	}
	plan, err = client.TreatmentPlans.Update(ctx, plan.ID, treatmentplans.PlanUpdate{
		Recommendations: plan.Recommendations[:1],
		PersonalMessage: dispensary.Value("One is enough for now."),
		Metadata:        dispensary.Value(clinic.Metadata{ID: "ehr-plan-7"}),
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(plan.Recommendations), plan.PersonalMessage, plan.Metadata.ID)
	// Output: 1 One is enough for now. ehr-plan-7
}

// Only an active plan can be canceled. The platform rejects any other plan and leaves it
// unchanged.
func ExampleService_Cancel() {
	platform, client := connect()
	defer platform.Close()
	ctx, id := context.Background(), platform.Plans.All()[0].ID

	plan, err := client.TreatmentPlans.Cancel(ctx, id)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(plan.State, len(plan.Recommendations), "recommendations")

	_, err = client.TreatmentPlans.Cancel(ctx, id)
	fmt.Println(errors.Is(err, dispensary.ErrValidation), errors.Is(err, dispensary.ErrNotApplied))
	// Output:
	// cancelled 0 recommendations
	// true true
}

// The patient pays in the office, on a page with the recommendations of the plan.
func ExampleService_InOfficeCheckout() {
	platform, client := connect()
	defer platform.Close()

	plan := platform.Plans.All()[0]
	checkout, err := client.TreatmentPlans.InOfficeCheckout(context.Background(), plan.ID)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(checkout.URL != "") // open it in a new tab: a printed Checkout hides it
	fmt.Println(checkout)
	// Output:
	// true
	// treatmentplans.Checkout()
}

func ExampleService_ListForPatient() {
	platform, client := connect()
	defer platform.Close()

	options := treatmentplans.ListOptions{SortBy: treatmentplans.SortCreatedAt, SortOrder: api.SortOrderDescending}
	for plan, err := range client.TreatmentPlans.ListForPatient(platform.Patients.All()[0].ID, options).All(context.Background()) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(plan.State, !plan.AvailableAt.IsZero())
	}
	// Output: active true
}

// A dynamic link opens the platform's own page, where a practitioner completes a draft.
func ExampleDynamicLinks_Create() {
	platform, client := connect()
	defer platform.Close()

	link, err := client.TreatmentPlans.DynamicLinks.Create(context.Background(), treatmentplans.DynamicLinkCreate{
		PractitionerID: platform.Practitioners.All()[0].ID,
		Patient:        &treatmentplans.DynamicLinkPatient{Email: "jane.doe@example.org"}, // found or created
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(link.TreatmentPlan.State, "for", link.Patient.FirstName)
	fmt.Println(link.RedirectURL != "") // open it in a new tab
	// Output:
	// draft for Jane
	// true
}

// Protocols are reusable plans, created by the practitioner or shared by a colleague.
func ExampleProtocols_ListForPractitioner() {
	platform, client := connect()
	defer platform.Close()
	ctx, practitionerID := context.Background(), platform.Practitioners.All()[0].ID

	options := treatmentplans.ProtocolListOptions{
		CurrentState: treatmentplans.StateActive, OwnershipType: treatmentplans.OwnershipAny, SortBy: treatmentplans.ProtocolSortName,
	}
	for listed, err := range client.TreatmentPlans.Protocols.ListForPractitioner(practitionerID, options).All(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		protocol, err := client.TreatmentPlans.Protocols.Get(ctx, listed.ID)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s (%s): %d products\n", listed.Name, listed.OwnershipType, len(protocol.Recommendations))
	}
	// Output:
	// Better Sleep (owned): 2 products
	// Gut Reset (owned): 2 products
	// Winter Immunity (shared): 2 products
}

// Create a plan from a protocol. The practitioner chooses the parts that the protocol leaves
// open, here in a form. The plan copies the rest.
func ExampleProtocol_NewPlan() {
	platform, client := connect()
	defer platform.Close()
	ctx, practitionerID := context.Background(), platform.Practitioners.All()[0].ID

	page, err := client.TreatmentPlans.Protocols.ListForPractitioner(practitionerID, treatmentplans.ProtocolListOptions{CurrentState: treatmentplans.StateActive}).Page(ctx)
	if err != nil {
		log.Fatal(err)
	}
	protocol, err := client.TreatmentPlans.Protocols.Get(ctx, page.Items[0].ID) // lists have no recommendations
	if err != nil {
		log.Fatal(err)
	}

	choices := treatmentplans.PlanChoices{PractitionerID: practitionerID, State: treatmentplans.StateDraft}
	_, err = protocol.NewPlan(choices)
	fmt.Println(dispensary.ProblemOf(err).Fields["recommendations[0].dosage.additional_info"])
	fmt.Println(protocol.Recommendations[0].DosagePermutations)

	choices.Recommendations = []treatmentplans.RecommendationChoice{
		{AdditionalInfo: dispensary.Value[string]("with food, two hours before bed")},
		{Omit: true},
	}
	plan, err := protocol.NewPlan(choices)
	if err != nil {
		log.Fatal(err)
	}
	created, err := client.TreatmentPlans.Create(ctx, platform.Patients.All()[0].ID, plan)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(created.State, "-", created.PersonalMessage, "-", created.Recommendations[0].Dosage.AdditionalInfo)
	// Output:
	// [Recommendations[0].dosage.additional info has to be chosen: the protocol has dosage permutations]
	// with food
	// draft - Start two hours before bed. - with food, two hours before bed
}

// A protocol may be older than the catalog: check that its products are available before you
// create the plan.
func ExampleService_CheckAvailable() {
	platform, client := connect()
	defer platform.Close()
	ctx, practitionerID := context.Background(), platform.Practitioners.All()[0].ID

	page, err := client.TreatmentPlans.Protocols.ListForPractitioner(practitionerID, treatmentplans.ProtocolListOptions{}).Page(ctx)
	if err != nil {
		log.Fatal(err)
	}
	protocol, err := client.TreatmentPlans.Protocols.Get(ctx, page.Items[0].ID)
	if err != nil {
		log.Fatal(err)
	}
	choices := treatmentplans.PlanChoices{
		PractitionerID: practitionerID, PermutationsAsInfo: true, Recommendations: make([]treatmentplans.RecommendationChoice, len(protocol.Recommendations)),
	}
	backordered := model.VariantBackordered
	_, _, err = platform.Products.UpdateVariant(protocol.Recommendations[1].VariantID, model.VariantUpdate{Status: &backordered})
	if err != nil {
		log.Fatal(err)
	}

	plan, err := protocol.NewPlan(choices)
	if err != nil {
		log.Fatal(err)
	}
	err = client.TreatmentPlans.CheckAvailable(ctx, plan.Recommendations)
	if unavailable, ok := errors.AsType[*treatmentplans.UnavailableError](err); ok {
		for _, variant := range unavailable.Variants {
			fmt.Println("recommendation", variant.Position, "is", variant.Status)
			choices.Recommendations[variant.Position].Omit = true // nothing was omitted before, so positions match the protocol
		}
	}
	plan, err = protocol.NewPlan(choices)
	fmt.Println(len(plan.Recommendations), err)
	// Output:
	// recommendation 1 is backordered
	// 1 <nil>
}
