package dispensarytest

import "slices"

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

// getClinic shows the integration whose key was sent, else the clinic's first whose key
// was not revoked: an assumption.
func getClinic(c *call, w *world) (reply, error) {
	clinic, known := w.clinics.Get(c.clinicID())
	if !known {
		return reply{}, notFound()
	}
	view := clinicView{
		ID: clinic.ID, Name: clinic.Name, Discount: clinic.Discount, DispensaryURL: clinic.DispensaryURL,
		PatientCount:      w.patients.Span(patientsByClinic, clinic.ID).Len(),
		PractitionerCount: w.practitioners.Span(practitionersByClinic, clinic.ID).Len(),
	}
	integration := w.integrationByKey(c.r.Header.Get("X-SVC-Clinic-Key"))
	if integration == nil {
		integration = w.integrationInUse(clinic.ID)
	}
	view.IntegrationID, view.IntegrationActivatedAt = integration.id, stampOrNull(integration.activated)
	return ok(view), nil
}

func (w *world) integrationsOf(clinicID string) []*integration {
	return w.integrations.Span(integrationsByClinic, clinicID).Created().All()
}

// integrationInUse is the integration that stands for a clinic where no key does.
func (w *world) integrationInUse(clinicID string) *integration {
	all := w.integrationsOf(clinicID)
	return all[max(slices.IndexFunc(all, func(i *integration) bool { return !i.revoked }), 0)]
}

func (w *world) integrationByKey(key string) *integration {
	if found := w.integrations.Span(integrationsByKey, key).Created(); key != "" && found.N > 0 {
		return found.All()[0]
	}
	return nil
}

// addIntegrations connects the application with every clinic that it is not
// connected with.
func (s *Server) addIntegrations() {
	w := s.world
	for clinic := range w.clinics.All() {
		if len(w.integrationsOf(clinic.ID)) > 0 {
			continue
		}
		for range s.set.integrations {
			id := w.newID("integration")
			connected := &integration{id: id, clinicID: clinic.ID, key: "ck_" + secretFor(w.seed, "clinic key "+id)[:40]}
			if !s.reads().pending {
				connected.activated = epoch
			}
			w.integrations.Put(id, connected)
		}
	}
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

func listAddresses(c *call, w *world) (reply, error) {
	patient, known := w.patientOf(c.clinicID(), c.arg())
	if !known {
		return reply{}, notFound()
	}
	return listOf(c, w.addresses.Span(addressesByPatient, patient.ID).Created(), func(a *Address) addressView {
		return addressView{
			ID: a.ID, Address1: a.Address1, Address2: orNull(a.Address2), Zipcode: a.Zipcode,
			City: a.City, State: a.State, Country: a.Country,
		}
	}), nil
}
