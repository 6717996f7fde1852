package contract_test

import (
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

func newPatient(*fixture) map[string]any {
	return map[string]any{
		"email": "nora.vance@example.org", "first_name": "Nora", "last_name": "Vance",
		"date_of_birth": "1979-05-31", "gender": "x", "mobile_number": "+15035550142",
		"send_welcome_email": false, "discount": 7.5, "metadata": map[string]any{"id": "ehr-2002"},
	}
}

func newStaff(*fixture) map[string]any {
	return map[string]any{
		"email": "lee.moss@example.com", "first_name": "Lee", "last_name": "Moss",
		"metadata": map[string]any{"id": nil},
	}
}

func newPractitioner(s *fixture) map[string]any {
	body := newStaff(s)
	body["email"], body["practitioner_type_id"] = "ida.brandt@example.com", s.first("practitioner_types.list")
	return body
}

func lastName(*fixture) map[string]any { return map[string]any{"last_name": "Renamed"} }

func staff(s *fixture) string { return s.first("staff.list") }

var clinicExercises = map[string]exercise{
	"clinic.get": {
		request: func(s *fixture) request { return request{key: s.fake.ClinicKey()} },
		refusals: []refusal{
			{"unknown clinic key", 401, func(_ *fixture, r *request) { r.key = "ck_unknown" }},
			{"revoked clinic key", 401, func(s *fixture, _ *request) {
				_, _ = s.fake.Clinics.RevokeKey(s.fake.ClinicKey()) // the status shows a failure
			}},
		},
	},
	"addresses.list":      {request: at((*fixture).patient)},
	"categories.list":     {request: plainly},
	"categories.get":      {request: firstOf("categories.list")},
	"categories.products": {request: firstOf("categories.list")},

	"orders.list_for_patient": {request: at((*fixture).patient)},
	"orders.get":              {request: firstOf("orders.list")},
	"orders.list":             {request: plainly},

	"patients.list":   {request: plainly},
	"patients.get":    {request: at((*fixture).patient)},
	"patients.create": {request: having(newPatient), status: 201},
	"patients.update": {request: having(lastName, (*fixture).patient)},
	"patients.search": {request: func(*fixture) request { return request{query: query("query", "jane")} }},

	"practitioners.list":   {request: plainly},
	"practitioners.get":    {request: at((*fixture).practitioner)},
	"practitioners.create": {request: having(newPractitioner), status: 201},
	"practitioners.update": {request: having(lastName, (*fixture).practitioner)},

	"staff.list":   {request: plainly},
	"staff.get":    {request: at(staff)},
	"staff.create": {request: having(newStaff), status: 201},
	"staff.update": {request: having(lastName, staff)},

	"metadata.list": {
		request: func(s *fixture) request {
			id := s.fake.Patients.All()[0].MetadataID
			return request{query: query("id", id, "type", "patient")}
		},
		// The scope depends on the type.
		scopes:   []string{"patients:read"},
		refusals: []refusal{{"no identifier", 422, func(_ *fixture, r *request) { r.query = query("type", "patient") }}},
	},
}

// patientEvent creates an event with data and returns its ID.
func patientEvent(s *fixture) string {
	_, event, err := s.fake.Patients.Update(s.patient(), model.PatientUpdate{LastName: new("Married")})
	if err != nil {
		s.t.Error(err)
	}
	return event.ID
}

var eventExercises = map[string]exercise{
	"events.get": {
		request: at(patientEvent),
		// The scope depends on the event type.
		scopes: []string{"patients:read"},
	},
	"events.list_clinic_keys": {request: func(s *fixture) request {
		_, _ = s.fake.Clinics.RevokeKey(s.fake.ClinicKey()) // makes the list non-empty
		return request{}
	}},
	"events.list_patients": {request: func(s *fixture) request {
		patientEvent(s)
		return request{}
	}},
	"events.list_treatment_plans": {request: func(s *fixture) request {
		_, _, _ = s.fake.Plans.Create(s.patient(), model.PlanCreate{}) // makes the list non-empty
		return request{}
	}},
	"events.list_orders": {request: func(s *fixture) request {
		_, _, _ = s.fake.Orders.Place(s.patient(), model.OrderCreate{}) // makes the list non-empty
		return request{}
	}},
	"events.list_products": {request: func(s *fixture) request {
		_, _, _ = s.fake.Products.Create(model.ProductCreate{}) // makes the list non-empty
		return request{}
	}},
	"webhook_deliveries.list": {request: func(s *fixture) request {
		s.deliver(patientEvent(s.subscribed()))
		return request{}
	}},
}
