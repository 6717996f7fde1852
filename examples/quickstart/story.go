package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/integration"
	"github.com/dispensary-go/dispensary/treatmentplans"
)

// story runs the example and prints a line for each step.
type story struct {
	out   io.Writer
	steps int

	platform *dispensarytest.Server
	home     string // URL of the EHR
	ehr      *integration.Integration
	orders   chan events.OrderEvent // handled by the EHR
	client   *dispensary.Client     // of the connected practitioner
	product  catalog.Product
	patient  *clinic.Patient
	plan     *treatmentplans.Plan
}

// run starts both servers and runs all steps.
func run(ctx context.Context, out io.Writer) (err error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s := &story{out: out, home: "http://" + listener.Addr().String(), orders: make(chan events.OrderEvent, 1)}
	s.platform, err = dispensarytest.Start(dispensarytest.WithRedirectURI(s.home + "/dispensary/callback"))
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	defer func() { err = errors.Join(err, s.platform.Close()) }()
	if err := s.open(ctx); err != nil {
		return errors.Join(err, listener.Close())
	}
	serving, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- serve(serving, s.ehr, listener) }()
	defer func() {
		stop()
		err = errors.Join(err, <-ended)
	}()
	fmt.Fprintf(out, "The dispensary platform (a fake) is at %s,\nour health record (EHR) at %s.\n\n", s.platform.Site().BaseURL, s.home)
	for _, step := range []func(context.Context) error{s.connect, s.search, s.createPatient, s.createPlan, s.order, s.disconnect} {
		if err := step(ctx); err != nil {
			return fmt.Errorf("step %d: %w", s.steps+1, err)
		}
	}
	return nil
}

// open configures the EHR with the values of the platform's dashboard. A real EHR reads them from its
// environment.
func (s *story) open(ctx context.Context) error {
	config, err := integration.Load(append(s.platform.Variables(),
		"DISPENSARY_STORE=memory:", "DISPENSARY_INBOX=memory:", // a database in production
		"DISPENSARY_STATE_KEYS="+rand.Text()+rand.Text()))
	if err != nil {
		return err
	}
	if s.ehr, err = openEHR(ctx, config, s.orders); err != nil {
		return err
	}
	return s.platform.Webhooks.Register(s.home+"/webhooks/"+config.Applications[0].Name(), model.EventOrderPlaced)
}

// tell prints a line for a step.
func (s *story) tell(format string, arguments ...any) {
	s.steps++
	fmt.Fprintf(s.out, "%2d. "+format+"\n", append([]any{s.steps}, arguments...)...)
}

// connect connects the practitioner in a browser with cookies: click "Connect", sign in to the platform and
// authorize the EHR.
func (s *story) connect(ctx context.Context) error {
	practitioner := s.platform.Users()[0]
	response, err := s.platform.Browser(practitioner).Authorize(ctx, s.home+"/dispensary/connect?return_to=/settings")
	if err != nil {
		return err
	}
	_ = response.Body.Close()
	if s.client, err = s.ehr.Accounts.Client(ctx, currentUser); err != nil {
		return err
	}
	practice, err := s.client.Clinic.Get(ctx)
	if err != nil {
		return err
	}
	s.tell("%s connects: the browser goes to the platform, signs in, authorizes, and returns with a code, which the EHR exchanges for tokens.", practitioner.Name)
	s.tell("The EHR reads the clinic: %s, %d patients.", practice.Name, practice.PatientCount)
	return nil
}

func (s *story) search(ctx context.Context) error {
	found, err := s.client.Catalog.Products.Search(catalog.ProductSearchOptions{Query: "magnesium"}).Page(ctx)
	if err != nil {
		return err
	}
	for _, product := range found.Items {
		if product.Status == catalog.StatusAvailable && product.PrimaryVariant != nil {
			s.product = product
			s.tell("It searches the catalog for magnesium: %d found, one that is available is %q.", found.Meta.TotalCount, product.Name)
			return nil
		}
	}
	return errors.New("the catalog has no magnesium")
}

func (s *story) createPatient(ctx context.Context) (err error) {
	s.patient, err = s.client.Clinic.Patients.Create(ctx, clinic.PatientCreate{
		FirstName: "Robin", LastName: "Example", Email: "robin.example@example.com",
		SendWelcomeEmail: dispensary.Value(false),
		Metadata:         clinic.Metadata{ID: "ehr-patient-1001"},
	})
	if err != nil {
		return err
	}
	s.tell("It creates a patient under its own id %s. Printed, the record shows no name: %v.", s.patient.Metadata.ID, s.patient)
	return nil
}

func (s *story) createPlan(ctx context.Context) (err error) {
	s.plan, err = s.client.TreatmentPlans.Create(ctx, s.patient.ID, treatmentplans.PlanCreate{
		PractitionerID: s.platform.Users()[0].ID, State: treatmentplans.StateDraft,
		Recommendations: []treatmentplans.Recommendation{{
			VariantID: s.product.PrimaryVariant.ID, UnitsToPurchase: 1,
			Dosage: treatmentplans.Dosage{Amount: "1", Frequency: treatmentplans.FrequencyEveryNight, Duration: "30", Format: treatmentplans.FormatCapsule},
		}},
	})
	if err != nil {
		return err
	}
	s.tell("The practitioner drafts a plan. It is %s, and the patient does not see it.", s.plan.State)
	if s.plan, err = s.client.TreatmentPlans.Activate(ctx, s.plan.ID); err != nil {
		return err
	}
	s.tell("The plan is activated: it is %s, and the patient can order from it.", s.plan.State)
	return nil
}

// order places an order of the patient. The platform signs the webhook. The EHR verifies, stores, acknowledges
// and handles it.
func (s *story) order(ctx context.Context) error {
	if _, _, err := s.platform.Orders.Place(s.patient.ID, model.OrderCreate{PlanIDs: []string{s.plan.ID}}); err != nil {
		return err
	}
	var placed events.OrderEvent
	select {
	case placed = <-s.orders:
	case <-ctx.Done():
		return ctx.Err()
	}
	s.tell("The patient orders. The signed webhook %s arrives: the EHR verifies it, responds with the challenge, and handles order %s.", placed.Type, placed.Object.OrderNumber)
	order, err := s.client.Clinic.Orders.Get(ctx, placed.Object.ID)
	if err != nil {
		return err
	}
	s.tell("The EHR reads the order: %d line, %s paid.", len(order.LineItems), order.PaymentTotal)
	return nil
}

func (s *story) disconnect(ctx context.Context) error {
	if err := s.ehr.Accounts.Disconnect(ctx, currentUser); err != nil {
		return err
	}
	s.tell("The practitioner disconnects: the platform revokes the tokens, and the EHR forgets them.")
	_, err := s.client.Clinic.Get(ctx)
	if !errors.Is(err, dispensary.ErrReauthorize) {
		return fmt.Errorf("a call with a revoked token: want ErrReauthorize, got %w", err)
	}
	s.tell("The next call fails: %v", err)
	return nil
}
