package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/treatmentplans"
)

// story plays the example and prints a line for each step.
type story struct {
	out   io.Writer
	steps int
	began time.Time

	platform *dispensarytest.Server
	ehr      *ehr
	client   *dispensary.Client // of the connected practitioner

	response     dispensary.Response // of the last call, for its request id
	practitioner model.User
	products     []catalog.Product
	patient      *clinic.Patient
	plan         *treatmentplans.Plan
	orderID      string
}

// run starts both servers and plays all steps.
func run(ctx context.Context, out io.Writer) (err error) {
	s := &story{out: out, began: time.Now()}
	if s.ehr, err = newEHR(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.ehr.stop(ctx)) }()
	s.platform, err = dispensarytest.Start(dispensarytest.WithRedirectURI(s.ehr.address + callbackPath))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.platform.Close()) }()
	if err := s.setUp(); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{
		s.connect, s.readClinic, s.search, s.walkCatalog, s.createPatient, s.draftPlan, s.activatePlan,
		s.checkout, s.dynamicLink, s.order, s.readOrder, s.disconnect,
	} {
		if err := step(ctx); err != nil {
			return fmt.Errorf("step %d: %w", s.steps+1, err)
		}
	}
	fmt.Fprintf(out, "\nDone in %d ms.\n", time.Since(s.began).Milliseconds())
	return nil
}

// setUp gives each side what it needs to know of the other.
func (s *story) setUp() error {
	app := s.platform.Application()
	err := s.ehr.start(registration{
		site:     s.platform.Site(),
		clientID: app.ClientID, clientSecret: dispensary.NewSecret(app.ClientSecret),
		clinicKey:     dispensary.NewSecret(s.platform.ClinicKey()),
		webhookSecret: dispensary.NewSecret(app.WebhookSecret), challengeToken: dispensary.NewSecret(app.ChallengeToken),
	})
	if err != nil {
		return err
	}
	if err := s.platform.Webhooks.Register(s.ehr.address+webhookPath, "order.placed"); err != nil {
		return err
	}
	s.practitioner = s.platform.Users()[0]
	fmt.Fprintf(s.out, "The dispensary platform (a fake) answers at %s,\nour health record (EHR) at %s.\n\n", s.platform.BaseURL(), s.ehr.address)
	return nil
}

// tell prints a step. Answers of the platform are followed by the request id, which its
// support asks for.
func (s *story) tell(format string, arguments ...any) {
	s.steps++
	line := fmt.Sprintf("%2d. ", s.steps) + fmt.Sprintf(format, arguments...)
	if s.response.RequestID != "" {
		line += "  [request " + s.response.RequestID + "]"
	}
	fmt.Fprintln(s.out, line)
	s.response = dispensary.Response{}
}

// captured stores the answer's request id for the next line.
func (s *story) captured() dispensary.RequestOption { return dispensary.CaptureResponse(&s.response) }

// connect lets the practitioner click "Connect", sign in at the platform and
// authorize the EHR, in a browser that keeps cookies.
func (s *story) connect(ctx context.Context) error {
	answer, err := s.platform.Browser(s.practitioner).Authorize(ctx, s.ehr.address+connectPath)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("the callback answered %s", answer.Status)
	}
	s.response.RequestID = <-s.ehr.requests
	s.client = s.ehr.as(currentUser)
	s.tell("%s connects: the browser goes to the platform, signs in, authorizes, and returns with a code; its state is ours, so the EHR exchanges it for tokens.", s.practitioner.Name)
	return nil
}

func (s *story) readClinic(ctx context.Context) error {
	c, err := s.client.Clinic.Get(ctx, s.captured())
	if err != nil {
		return err
	}
	s.tell("The EHR reads the clinic: %s, %d patients, %g %% discount.", c.Name, c.PatientCount, c.Discount)
	return nil
}

func (s *story) search(ctx context.Context) error {
	found, err := s.client.Catalog.Products.Search(ctx, catalog.ProductSearchOptions{Query: "magnesium"}, s.captured())
	if err != nil {
		return err
	}
	if len(found.Items) == 0 {
		return errors.New("the catalog has no magnesium")
	}
	s.tell("It searches the catalog for magnesium: %d found, the first is %q.", found.Meta.TotalCount, found.Items[0].Name)
	return nil
}

func (s *story) walkCatalog(ctx context.Context) error {
	var pages int
	for page, err := range s.client.Catalog.Products.Pages(ctx, catalog.ProductListOptions{Paging: dispensary.Paging{PageSize: 10}}, s.captured()) {
		if err != nil {
			return err
		}
		pages++
		for _, product := range page.Items {
			if product.Status == catalog.Available && product.PrimaryVariant != nil {
				s.products = append(s.products, product)
			}
		}
	}
	if len(s.products) < 2 {
		return errors.New("the catalog has fewer than two available products")
	}
	s.tell("It walks all %d pages of the catalog: %d products can be ordered.", pages, len(s.products))
	return nil
}

func (s *story) createPatient(ctx context.Context) (err error) {
	s.patient, err = s.client.Clinic.Patients.Create(ctx, clinic.NewPatient{
		FirstName: "Robin", LastName: "Example", Email: "robin.example@example.com",
		SendWelcomeEmail: dispensary.Value(false),
		Metadata:         clinic.Metadata{ID: "ehr-patient-1001"},
	}, s.captured())
	if err != nil {
		return err
	}
	s.tell("It creates a patient under its own id %s. Printed, the record shows no name: %v.", s.patient.Metadata.ID, s.patient)
	return nil
}

func (s *story) draftPlan(ctx context.Context) (err error) {
	s.plan, err = s.client.TreatmentPlans.Create(ctx, s.patient.ID, treatmentplans.NewPlan{
		PractitionerID: s.practitioner.ID,
		State:          treatmentplans.StateDraft,
		Recommendations: []treatmentplans.Recommendation{
			recommend(s.products[0], treatmentplans.TwicePerDay), recommend(s.products[1], treatmentplans.EveryNight),
		},
	}, s.captured())
	if err != nil {
		return err
	}
	s.tell("The practitioner drafts a plan with %d recommendations; it is %s, the patient knows nothing of it.", len(s.plan.Recommendations), s.plan.State)
	return nil
}

func recommend(p catalog.Product, frequency string) treatmentplans.Recommendation {
	return treatmentplans.Recommendation{
		VariantID: p.PrimaryVariant.ID, UnitsToPurchase: 1,
		Dosage: treatmentplans.Dosage{Amount: "1", Frequency: frequency, Duration: "30", Format: treatmentplans.Capsule},
	}
}

func (s *story) activatePlan(ctx context.Context) (err error) {
	if s.plan, err = s.client.TreatmentPlans.Activate(ctx, s.plan.ID, s.captured()); err != nil {
		return err
	}
	s.tell("The plan is activated: it is %s and was sent to the patient on %s.", s.plan.State, s.plan.AvailableAt.Format(time.DateOnly))
	return nil
}

func (s *story) checkout(ctx context.Context) error {
	c, err := s.client.TreatmentPlans.InOfficeCheckout(ctx, s.plan.ID, s.captured())
	if err != nil {
		return err
	}
	s.tell("To pay in the office, the patient opens %s", c.URL)
	return nil
}

func (s *story) dynamicLink(ctx context.Context) error {
	link, err := s.client.TreatmentPlans.DynamicLinks.Get(ctx, s.plan.ID, s.captured())
	if err != nil {
		return err
	}
	s.tell("To edit the plan on the platform, the practitioner opens %s", link.RedirectURL)
	return nil
}

// order lets the platform's patient act. What comes back is the webhook: signed
// by the platform, verified, acknowledged and decoded by the EHR.
func (s *story) order(ctx context.Context) error {
	_, event, err := s.platform.Orders.Place(s.patient.ID, model.NewOrder{PlanIDs: []string{s.plan.ID}})
	if err != nil {
		return err
	}
	if err := s.platform.Webhooks.WaitDelivered(ctx, event.ID); err != nil {
		return err
	}
	select {
	case placed := <-s.ehr.orders:
		s.orderID = placed.Data.ID
		s.tell("The patient orders. The signed webhook %s (event %s) arrives; the EHR verifies it, answers the challenge, and handles order %s for %s.", placed.Type, placed.ID, placed.Data.OrderNumber, placed.Data.PaymentTotal)
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *story) readOrder(ctx context.Context) error {
	o, err := s.client.Clinic.Orders.Get(ctx, s.orderID, s.captured())
	if err != nil {
		return err
	}
	s.tell("The EHR reads the order back: %d lines, %s before discount, %s paid.", len(o.LineItems), o.MSRPTotal, o.PaymentTotal)
	return nil
}

// disconnect ends the connection, and shows what a call says after that.
func (s *story) disconnect(ctx context.Context) error {
	if err := s.ehr.conns.Disconnect(ctx, currentUser); err != nil {
		return err
	}
	s.response.RequestID = <-s.ehr.requests
	s.tell("The practitioner disconnects: the tokens are revoked at the platform and forgotten by the EHR.")
	_, err := s.client.Clinic.Get(ctx)
	if !errors.Is(err, dispensary.ErrReauthorize) {
		return fmt.Errorf("a call with a revoked token: want ErrReauthorize, got %w", err)
	}
	s.tell("The next call says so: %v", err)
	return nil
}
