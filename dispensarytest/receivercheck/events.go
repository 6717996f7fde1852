package receivercheck

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/ids"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/leak"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/view"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// event is an event for one integration in the format of a webhook.
type event struct{ view.EventView }

// samples contains one event of each type, created by users of the fake platform.
type samples struct {
	byType         map[string]event
	integrationIDs []string    // integrations of one clinic
	patient        leak.Search // finds patient data of the events
}

// collectSamples creates the events through actions of users of the fake platform.
func collectSamples(srv *dispensarytest.Server) (samples, error) {
	s := samples{byType: make(map[string]event)}
	const message = "Take these for your rosacea."
	patient, created, err := srv.Patients.Create(model.PatientCreate{
		FirstName: "Zephyrine", LastName: "Quillfeather", Email: "zephyrine.quillfeather@example.com",
		DateOfBirth: "1961-08-23", Gender: "female", MobileNumber: "+12125550142",
	})
	if err != nil {
		return s, err
	}
	s.patient = leak.New(append(leak.OfPatient("the patient", &patient), leak.Secret{What: "the personal message of a plan", Value: message}))
	draft, _, err := srv.Plans.Create(patient.ID, model.PlanCreate{Draft: true}) // contains an available variant
	if err != nil {
		return s, err
	}
	line := draft.Recommendations[0]
	line.Dosage = &model.Dosage{Amount: "1-2", Frequency: "every night", Duration: "30 days", Format: "capsule"}
	plan, planned, err := srv.Plans.Create(patient.ID, model.PlanCreate{PersonalMessage: message, Recommendations: []model.Recommendation{line}})
	if err != nil {
		return s, err
	}
	_, edited, e1 := srv.Patients.Update(patient.ID, model.PatientUpdate{TextNotification: new(true)})
	_, ordered, e2 := srv.Orders.Place(patient.ID, model.OrderCreate{PlanIDs: []string{plan.ID}})
	_, replanned, e3 := srv.Plans.Update(plan.ID, model.PlanUpdate{PersonalMessage: new(message)})
	_, recommended, e4 := srv.Plans.UpdateRecommendation(plan.ID, plan.Recommendations[0])
	product, listed, e5 := srv.Products.Create(model.ProductCreate{})
	_, renamed, e6 := srv.Products.Update(product.ID, model.ProductUpdate{Name: new("Magnesium, renamed")})
	_, described, e7 := srv.Products.Describe(product.ID, "<p>For the nerves</p>")
	s.add(created, edited, planned, replanned, recommended, ordered, listed, renamed, described)
	return s, errors.Join(e1, e2, e3, e4, e5, e6, e7, s.collectIntegrations(srv))
}

// collectIntegrations revokes and reactivates each integration of the clinic, and reads their IDs
// from the events.
func (s *samples) collectIntegrations(srv *dispensarytest.Server) error {
	for _, key := range srv.ClinicKeys() {
		revoked, err := srv.Clinics.RevokeKey(key)
		if err != nil {
			return err
		}
		activated, err := srv.Clinics.ActivateKey(key)
		if err != nil {
			return err
		}
		s.add(revoked, activated)
		s.integrationIDs = append(s.integrationIDs, revoked.ObjectID)
	}
	return nil
}

func (s *samples) add(made ...model.Event) {
	for _, e := range made {
		s.byType[e.Type] = event{view.Event(&e)}
	}
}

// newEvent returns a new event of type Hooks.EventType that has just happened.
func (c *checker) newEvent() event { return c.newEventOf(c.Hooks.EventType) }

// newEventOf returns a new event of a type that has just happened, for the first integration and
// with a unique ID.
func (c *checker) newEventOf(eventType string) event {
	e := c.samples.byType[eventType]
	e.ID, e.Type, e.IntegrationID = ids.Of(rand.Uint64(), "event", rand.Uint64()), eventType, c.samples.integrationIDs[0]
	return e.at(c.Timing.Now())
}

// at returns the event with another creation time.
func (e event) at(t time.Time) event {
	e.CreatedAt = view.Time(t)
	return e
}

// body returns the body of the event's webhook.
func (e event) body() []byte { return view.Encode(map[string]event{"event": e}) }

// edited returns the body of the event after change has modified its members.
func (e event) edited(change func(event map[string]any)) []byte {
	var body struct {
		Event map[string]any `json:"event"`
	}
	if err := json.Unmarshal(e.body(), &body); err != nil {
		panic(err) // body returns valid JSON
	}
	change(body.Event)
	return view.Encode(body)
}

// unusual returns a body that no Go encoder writes. It has members in another order, extra
// whitespace, unusual escapes and unusual forms of numbers.
func (e event) unusual() []byte {
	return fmt.Appendf(nil, "{ \"event\" :\t{ \"type\":%q, \"integration_id\":%q,\r\n  \"id\" : %q , \"created_at\":%q, \"clinic_id\":%q,"+
		" \"data\":{\"patient\":{\"id\":\"p\\u002d1\",\"note\":\"a\\/b <b>&amp;</b> \\u00E9\u2028\",\"discount\":1.50E+1,\"number\":12345678901234567890,\"discount_type\":null}}}\n}\n",
		e.Type, e.IntegrationID, e.ID, e.CreatedAt, e.ClinicID)
}
