package httpapi

import (
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/view"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// clinicView is the clinic. API section: "Clinic".
type clinicView struct {
	ID                     string  `json:"id"`
	Name                   string  `json:"name"`
	PatientCount           int     `json:"patient_count"`
	PractitionerCount      int     `json:"practitioner_count"`
	Discount               float64 `json:"discount"`
	DispensaryURL          string  `json:"dispensary_url"`
	IntegrationID          string  `json:"integration_id"`
	IntegrationActivatedAt *string `json:"integration_activated_at"`
}

// getClinic returns the integration of the key in the request. If there is no key, it returns
// the clinic's first integration that is not revoked: an assumption.
func getClinic(c *call, w *store.World) (reply, error) {
	clinic, known := w.Clinics.Rows[c.clinicID()]
	if !known {
		return reply{}, notFound()
	}
	answer := clinicView{
		ID: clinic.ID, Name: clinic.Name, Discount: clinic.Discount, DispensaryURL: clinic.DispensaryURL,
		PatientCount:      len(table.Where(w.Patients, func(p *model.Patient) bool { return p.ClinicID == clinic.ID })),
		PractitionerCount: len(w.PractitionersOf(clinic.ID)),
	}
	integration := w.IntegrationByKey(c.request.Header.Get("X-SVC-Clinic-Key"))
	if integration == nil {
		integration = w.IntegrationInUse(clinic.ID)
	}
	answer.IntegrationID, answer.IntegrationActivatedAt = integration.ID, view.NullTime(store.ActivatedAt(integration, c.behaviors))
	return ok(answer), nil
}

// addressView is an address. API section: "Address".
type addressView struct {
	ID       string  `json:"id"`
	Address1 string  `json:"address1"`
	Address2 *string `json:"address2"`
	Zipcode  string  `json:"zipcode"`
	City     string  `json:"city"`
	State    string  `json:"state"`
	Country  string  `json:"country"`
}

func listAddresses(c *call, w *store.World, patient *model.Patient) (reply, error) {
	return listOf(c, table.Where(w.Addresses, func(a *store.Address) bool { return a.PatientID == patient.ID }), func(a *store.Address) addressView {
		return addressView{
			ID: a.ID, Address1: a.Address1, Address2: view.NullText(a.Address2), Zipcode: a.Zipcode,
			City: a.City, State: a.State, Country: a.Country,
		}
	}), nil
}
