package dispensarytest

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/leak"
)

// notice is an event on its way to an integration.
type notice struct {
	Event
	integration string
}

// collect lets the platform's people make an event of each type, and makes a
// list of what must not be seen of the patient who is in them.
func (x *examination) collect() error {
	p := x.srv.Platform()
	patient, created, err := p.RegisterPatient(NewPatient{
		FirstName: "Zephyrine", LastName: "Quillfeather", Email: "zephyrine.quillfeather@example.com",
		DateOfBirth: "1961-08-23", Gender: Female, MobileNumber: "+12125550142",
	})
	if err != nil {
		return err
	}
	const message = "Take these for your rosacea."
	plan, planned, planErr := p.CreatePlan(patient.ID, NewPlan{PersonalMessage: message, Recommendations: x.recommendations()})
	if planErr != nil {
		return planErr
	}
	_, edited, e1 := p.EditPatient(patient.ID, PatientChange{TextNotification: new(true)})
	_, ordered, e2 := p.PlaceOrder(patient.ID, NewOrder{PlanIDs: []string{plan.ID}})
	_, replanned, e3 := p.UpdatePlan(plan.ID, PlanChange{PersonalMessage: new(message)})
	_, recommended, e4 := p.UpdateRecommendation(plan.ID, plan.Recommendations[0])
	product, listed, e5 := p.CreateProduct(NewProduct{})
	_, renamed, e6 := p.UpdateProduct(product.ID, ProductChange{Name: new("Magnesium, renamed")})
	_, described, e7 := p.DescribeProduct(product.ID, "<p>For the nerves</p>")
	revoked, e8 := p.RevokeClinicKey(x.srv.ClinicKey())
	activated, e9 := p.ReactivateClinicKey(x.srv.ClinicKey())
	x.samples = make(map[string]Event)
	for _, e := range []Event{created, edited, planned, replanned, recommended, ordered, listed, renamed, described, revoked, activated} {
		x.samples[e.Type] = e
	}
	x.patient = leak.New(append(patient.secrets(), leak.Secret{What: "the personal message of a plan", Value: message}))
	return errors.Join(e1, e2, e3, e4, e5, e6, e7, e8, e9)
}

func (x *examination) recommendations() []Recommendation {
	v := x.srv.world.firstAvailable()
	return []Recommendation{{VariantID: v.ID, UnitsToPurchase: 1, Dosage: &Dosage{Amount: "1-2", Frequency: "every night", Duration: "30 days", Format: "capsule"}}}
}

// notice makes an event of a type that nobody has seen, for the first
// integration.
func (x *examination) notice(kind string) notice {
	n := notice{Event: x.samples[kind], integration: x.srv.world.integrations.At(0).id}
	n.ID, n.Type, n.CreatedAt = x.srv.world.newID("event"), kind, x.Now()
	return n
}

// body is the event as it is sent.
func (n notice) body() []byte { return encodeDelivery(&n.Event, n.integration, "") }

// edited is the event after a change to its members.
func (n notice) edited(change func(event map[string]any)) []byte {
	var body struct {
		Event map[string]any `json:"event"`
	}
	if err := json.Unmarshal(n.body(), &body); err != nil {
		panic(err) // it was encoded a moment ago
	}
	change(body.Event)
	return encodeOne(body)
}

// written is the event as no encoder of Go writes it: members in another order,
// white space, escapes, numbers in other forms.
func (n notice) written() []byte {
	return fmt.Appendf(nil, "{ \"event\" :\t{ \"type\":%q, \"integration_id\":%q,\r\n  \"id\" : %q , \"created_at\":%q, \"clinic_id\":%q,"+
		" \"data\":{\"patient\":{\"id\":\"p\\u002d1\",\"note\":\"a\\/b <b>&amp;</b> \\u00E9\u2028\",\"discount\":1.50E+1,\"number\":12345678901234567890,\"discount_type\":null}}}\n}\n",
		n.Type, n.integration, n.ID, stamp(n.CreatedAt), n.ClinicID)
}
