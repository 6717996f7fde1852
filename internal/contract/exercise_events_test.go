package contract_test

import (
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// patientEvent makes an event that has data.
func patientEvent(s *fixture) string {
	_, event, err := s.fake.Patients.Edit(s.patient(), model.PatientChange{LastName: new("Married")})
	if err != nil {
		s.t.Error(err)
	}
	return event.ID
}

var eventExercises = map[string]exercise{
	"events.get": {
		request: at(patientEvent),
		// The scope follows from the event's type.
		scopes: []string{"patients:read"},
	},
	"events.list_clinic_keys": {request: func(s *fixture) request {
		_, _ = s.fake.Clinics.RevokeKey(s.fake.ClinicKey()) // the list is not empty then
		return request{}
	}},
	"events.list_patients": {request: func(s *fixture) request {
		patientEvent(s)
		return request{}
	}},
	"events.list_treatment_plans": {request: func(s *fixture) request {
		_, _, _ = s.fake.Plans.Create(s.patient(), model.NewPlan{}) // the list is not empty then
		return request{}
	}},
	"events.list_orders": {request: func(s *fixture) request {
		_, _, _ = s.fake.Orders.Place(s.patient(), model.NewOrder{}) // the list is not empty then
		return request{}
	}},
	"events.list_products": {request: func(s *fixture) request {
		_, _, _ = s.fake.Products.Create(model.NewProduct{}) // the list is not empty then
		return request{}
	}},
	"webhook_deliveries.list": {request: func(s *fixture) request {
		s.deliver(patientEvent(s.subscribed()))
		return request{}
	}},
}
