package cookbook_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/fhir"
	"github.com/dispensary-go/dispensary/treatmentplans"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/memoryinbox"
)

// medicationList contains the MedicationRequests of a patient in the EHR, with all elements.
type medicationList []map[string]any

// search returns the elements that package fhir knows.
func (l medicationList) search() (rows []fhir.MedicationRequest) {
	text, err := json.Marshal(l)
	must(err)
	must(json.Unmarshal(text, &rows))
	return rows
}

// write adds a row, or replaces the platform's elements of the row with the same identifier. It keeps all
// other elements and notes.
func (l *medicationList) write(r fhir.MedicationRequest) {
	at := slices.IndexFunc(l.search(), func(row fhir.MedicationRequest) bool { return slices.Contains(row.Identifier, r.Identifier[0]) })
	if at < 0 {
		at = len(*l)
		*l = append(*l, map[string]any{"id": fmt.Sprint("r", at+1), "reasonCode": []any{map[string]any{"text": "added in the EHR"}}})
	}
	row := (*l)[at]
	notes, _ := row["note"].([]any) // clinicians add some
	notes = slices.DeleteFunc(notes, func(note any) bool { return note.(map[string]any)["text"] == fhir.RefillNote })
	for _, optional := range []string{"authoredOn", "requester", "note", "dosageInstruction", "dispenseRequest"} {
		delete(row, optional)
	}
	text, err := json.Marshal(r)
	must(err)
	must(json.Unmarshal(text, &row))
	if own, _ := row["note"].([]any); len(notes)+len(own) > 0 {
		row["note"] = append(notes, own...)
	}
}

// stop ends a row.
func (l medicationList) stop(id string) {
	for _, row := range l {
		if row["id"] == id {
			row["status"] = "stopped"
		}
	}
}

// String returns the active rows.
func (l medicationList) String() string {
	var active []string
	for _, row := range l.search() {
		if row.Status == "active" {
			active = append(active, row.ID+" "+row.MedicationCodeableConcept.Text+": "+row.DosageInstruction[0].Text)
		}
	}
	return cmp.Or(strings.Join(active, "; "), "none")
}

// A plan is activated, changed and canceled on the platform. One of its products leaves the catalog.
func Example_chart() {
	platform := start()
	defer platform.Close()
	client := platform.Client(platform.Users()[0])
	patient := platform.Patients.All()[0].ID
	records := map[string]fhir.Reference{patient: {Reference: "Patient/p1"}} // by the platform's ID
	var list medicationList

	variants := map[string]*catalog.Variant{} // keep them in a table, because products leave the catalog
	write := func(ctx context.Context, planID string) error {
		plan, err := client.TreatmentPlans.Get(ctx, planID) // an event may be late or incomplete
		if err != nil {
			return err
		}
		chart := fhir.Chart{System: "https://ehr.example/dispensary/us-sandbox", PatientID: plan.Patient.ID, Subject: records[plan.Patient.ID]}
		ended, err := chart.Ended(*plan, list.search())
		if err != nil {
			return err
		}
		for _, id := range ended {
			list.stop(id)
		}
		for _, r := range plan.Recommendations {
			variant, err := client.Catalog.Variants.Get(ctx, r.VariantID)
			switch {
			case err == nil:
				variants[r.VariantID] = variant
			case !errors.Is(err, dispensary.ErrNotFound) || variants[r.VariantID] == nil:
				return err
			}
		}
		requests, err := chart.Requests(*plan, variants)
		for _, request := range requests {
			list.write(request)
		}
		return err
	}

	handled := make(chan error)
	var router webhook.Router
	planChanged := func(ctx context.Context, e events.TreatmentPlanEvent) error {
		err := write(ctx, e.Object.ID)
		handled <- err
		return err
	}
	router.OnTreatmentPlanCreated(planChanged)
	router.OnTreatmentPlanUpdated(planChanged)
	router.OnTreatmentPlanRecommendationUpdated(planChanged)
	inbox, err := memoryinbox.New(memoryinbox.Config{Work: webhook.Work{Handle: router.Dispatch, Order: webhook.ByPatient}})
	must(err)
	handler, err := webhook.NewHandler(webhook.HandlerConfig{
		Environment: platform.Site().Environment,
		Secrets:     []dispensary.Secret{dispensary.NewSecret(platform.Application().WebhookSecret)},
		Challenge:   dispensary.NewSecret(platform.Application().ChallengeToken),
		Inbox:       inbox,
	})
	must(err)
	must(platform.Webhooks.RegisterHandler(handler))

	products := platform.Products.All()
	line := func(product int, amount string) model.Recommendation {
		return model.Recommendation{VariantID: products[product].VariantIDs[0], UnitsToPurchase: 1, Refill: amount == "1", Dosage: &model.Dosage{Amount: amount, Format: "capsule"}}
	}
	changed := func(what string, err error) {
		must(err)
		must(<-handled)
		fmt.Println(what, list)
	}
	plan, _, err := platform.Plans.Create(patient, model.PlanCreate{Draft: true, Recommendations: []model.Recommendation{line(0, "1"), line(1, "1")}})
	must(err)
	_, _, err = platform.Plans.Activate(plan.ID)
	changed("activated:", err)
	list[1]["note"] = append(list[1]["note"].([]any), map[string]any{"text": "Started with one."}) // by a clinician
	_, _, err = platform.Plans.Update(plan.ID, model.PlanUpdate{Recommendations: []model.Recommendation{line(1, "2"), line(2, "1")}})
	changed("changed:  ", err)
	for _, note := range list.search()[1].Note {
		fmt.Println("     note:", note.Text)
	}
	must(platform.Products.Remove(products[1].ID))
	must(write(context.Background(), plan.ID))
	fmt.Println("removed:  ", list)
	_, _, err = platform.Plans.Cancel(plan.ID)
	changed("canceled: ", err)

	own, err := client.TreatmentPlans.Create(context.Background(), patient, treatmentplans.PlanCreate{
		PractitionerID:  platform.Practitioners.All()[0].ID,
		Recommendations: []treatmentplans.Recommendation{{VariantID: products[0].VariantIDs[0], UnitsToPurchase: 1, Dosage: treatmentplans.Dosage{Amount: "3", Format: "capsule"}}},
	})
	must(err)
	must(write(context.Background(), own.ID)) // your own calls cause no event
	fmt.Println("own plan: ", list)
	must(inbox.Close(context.Background()))
	// Output:
	// activated: r1 Clearwell Labs Acetyl-L-Carnitine 500, 60 capsules: 1 capsule; r2 Bluefern Botanics Adaptogen Balance, 60 capsules: 1 capsule
	// changed:   r2 Bluefern Botanics Adaptogen Balance, 60 capsules: 2 capsule; r3 Bluefern Botanics Ashwagandha Root, 60 capsules: 1 capsule
	//      note: Started with one.
	// removed:   r2 Bluefern Botanics Adaptogen Balance, 60 capsules: 2 capsule; r3 Bluefern Botanics Ashwagandha Root, 60 capsules: 1 capsule
	// canceled:  none
	// own plan:  r4 Clearwell Labs Acetyl-L-Carnitine 500, 60 capsules: 3 capsule
}
