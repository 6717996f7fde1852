// Package calltest contains one client call for each operation of the API. Tests of several
// packages use the calls to check that each one reaches its operation, that requests and
// responses follow the contract, that every response decodes, and that nothing leaks.
package calltest

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/treatmentplans"
)

// Fixture is a fake platform with at least one record of each kind, and a client for it.
type Fixture struct {
	Platform *dispensarytest.Server
	Client   *dispensary.Client
	HTTP     http.RoundTripper // transport of OAuth calls

	// IDs of the platform's records. Plan is an active plan and Draft is a draft.
	Patient, Practitioner, Staff, Order, Plan, Draft, Event string
	Product, Variant, Brand, Allergen, Ingredient           string
	SupplementType, Certification, PractitionerType         string
	Category, Protocol, OrderNumber                         string
}

// NewFixture returns a fixture on a new fake platform.
func NewFixture(t testing.TB, options ...dispensarytest.Option) *Fixture {
	t.Helper()
	return On(t, dispensarytest.New(t, options...))
}

// On reads the IDs of a platform's records through the API. It creates two plans, an order and
// an event of each group.
func On(t testing.TB, platform *dispensarytest.Server) *Fixture {
	t.Helper()
	f := &Fixture{Platform: platform}
	f.HTTP = f.Platform.HTTPClient().Transport
	f.Client = f.Platform.Client(model.User{})
	ctx := t.Context()
	p := f.Platform
	f.Patient, f.Practitioner = p.Patients.All()[0].ID, p.Practitioners.All()[0].ID
	product := first(t, f.Client.Catalog.Products.List().All(ctx))
	f.Product, f.Variant, f.Brand = product.ID, product.PrimaryVariant.ID, product.Brand.ID
	f.Staff = first(t, f.Client.Clinic.Staff.List().All(ctx)).ID
	f.Allergen = first(t, f.Client.Catalog.Allergens.List().All(ctx)).ID
	f.Ingredient = first(t, f.Client.Catalog.Ingredients.List().All(ctx)).ID
	f.SupplementType = first(t, f.Client.Catalog.SupplementTypes.List().All(ctx)).ID
	f.Certification = first(t, f.Client.Catalog.ThirdPartyCertifications.List().All(ctx)).ID
	f.PractitionerType = first(t, f.Client.Catalog.PractitionerTypes.List().All(ctx)).ID
	f.Category = first(t, f.Client.Clinic.Categories.List().All(ctx)).ID
	f.Protocol = first(t, f.Client.TreatmentPlans.Protocols.ListForPractitioner(f.Practitioner, treatmentplans.ProtocolListOptions{}).All(ctx)).ID
	f.Plan, f.Draft = f.newPlan(t, treatmentplans.StateActive), f.newPlan(t, treatmentplans.StateDraft)
	order, event, err := p.Orders.Place(f.Patient, model.OrderCreate{PlanIDs: []string{f.Plan}})
	must(t, err)
	f.Order, f.OrderNumber, f.Event = order.ID, order.Number, event.ID
	f.happen(t)
	return f
}

// happen creates an event for each list of events. Placed orders have one already.
func (f *Fixture) happen(t testing.TB) {
	t.Helper()
	p := f.Platform
	_, err := p.Clinics.RevokeKey(p.ClinicKey())
	must(t, err)
	_, err = p.Clinics.ActivateKey(p.ClinicKey())
	must(t, err)
	patient, _, err := p.Patients.Create(model.PatientCreate{})
	must(t, err)
	_, _, err = p.Plans.Create(patient.ID, model.PlanCreate{})
	must(t, err)
	_, _, err = p.Products.Update(f.Product, model.ProductUpdate{})
	must(t, err)
}

// Through sends all further calls through wrap(the platform's transport). Options apply to
// Client.
func (f *Fixture) Through(wrap func(http.RoundTripper) http.RoundTripper, options ...dispensary.Option) {
	f.HTTP = wrap(f.Platform.HTTPClient().Transport)
	f.Client = f.Platform.Client(model.User{}, append(options, dispensary.WithTransport(f.HTTP))...)
}

func (f *Fixture) newPlan(t testing.TB, state treatmentplans.State) string {
	t.Helper()
	plan, err := f.Client.TreatmentPlans.Create(t.Context(), f.Patient, treatmentplans.PlanCreate{
		PractitionerID: f.Practitioner, State: state, Recommendations: f.Recommendations(),
	})
	must(t, err)
	return plan.ID
}

// Recommendations returns the recommendations for each plan of the fixture.
func (f *Fixture) Recommendations() []treatmentplans.Recommendation {
	return []treatmentplans.Recommendation{{
		VariantID: f.Variant, UnitsToPurchase: 1, Refill: true,
		Dosage: treatmentplans.Dosage{Amount: "1-2", Frequency: treatmentplans.FrequencyTwicePerDay, Duration: "30", Format: treatmentplans.FormatCapsule},
	}}
}

// Call makes one call of an operation.
type Call func(ctx context.Context, f *Fixture) (any, error)

// All returns one call for each operation, keyed by its name, such as "patients.get".
func All(t testing.TB) map[string]Call {
	calls := map[string]Call{}
	for name := range table(t, &Fixture{Client: new(dispensary.Client)}) { // only the names are used
		calls[name] = func(ctx context.Context, f *Fixture) (any, error) { return table(t, f)[name](ctx) }
	}
	return calls
}

// Request returns the request of an operation's call, and its body. It does not send the request.
func Request(t testing.TB, f *Fixture, operation string) (*http.Request, []byte) {
	t.Helper()
	if operation == "oauth.authorize" { // only a browser sends it
		address, err := OAuth(t, f.Platform).AuthorizeURL("state")
		must(t, err)
		request, err := http.NewRequest(http.MethodGet, address, nil)
		must(t, err)
		return request, nil
	}
	stopped, c := *f, capture{operation: operation}
	stopped.Through(func(base http.RoundTripper) http.RoundTripper { c.base = base; return &c })
	_, _ = All(t)[operation](t.Context(), &stopped) // fails, because capture rejects the request
	if c.request == nil {
		t.Fatalf("%s sends no request", operation)
	}
	return c.request, c.body
}

// capture keeps the request of an operation. It passes on only the exchange of a code for the
// token of another call.
type capture struct {
	base      http.RoundTripper
	operation string
	request   *http.Request
	body      []byte
}

func (c *capture) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasSuffix(r.URL.Path, "/oauth/token") && c.operation != "oauth.token" {
		return c.base.RoundTrip(r)
	}
	c.request = r
	if r.Body != nil {
		var err error
		if c.body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	return &http.Response{StatusCode: http.StatusBadRequest, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
}

// call is a client method bound to its arguments.
type call func(ctx context.Context) (any, error)

func call0[T any](method func(context.Context, ...api.RequestOption) (T, error)) call {
	return func(ctx context.Context) (any, error) { return method(ctx) }
}

func call1[A, T any](method func(context.Context, A, ...api.RequestOption) (T, error), a A) call {
	return func(ctx context.Context) (any, error) { return method(ctx, a) }
}

func call2[A, B, T any](method func(context.Context, A, B, ...api.RequestOption) (T, error), a A, b B) call {
	return func(ctx context.Context) (any, error) { return method(ctx, a, b) }
}

// page returns a call that loads the first page of a list.
func page[T any](list *api.List[T]) call {
	return func(ctx context.Context) (any, error) { return list.PageSize(2).Page(ctx) }
}

// table returns the calls for the current state of a fixture.
func table(t testing.TB, f *Fixture) map[string]call {
	return map[string]call{
		"oauth.authorize": func(context.Context) (any, error) {
			address, err := oauthThrough(t, f.Platform, f.HTTP).AuthorizeURL("state")
			if err != nil {
				return nil, err
			}
			return f.Platform.Approve(address, f.Platform.Users()[0])
		},
		"oauth.token": func(ctx context.Context) (any, error) { return connect(ctx, t, f) },
		"oauth.revoke": func(ctx context.Context) (any, error) {
			token, err := connect(ctx, t, f)
			if err != nil {
				return nil, err
			}
			return nil, oauthThrough(t, f.Platform, f.HTTP).Revoke(ctx, token)
		},

		"dynamic_links.get": call1(f.Client.TreatmentPlans.DynamicLinks.Get, f.Draft),
		"dynamic_links.new": call0(f.Client.TreatmentPlans.DynamicLinks.EmptyPlanURL),
		"dynamic_links.create": call1(f.Client.TreatmentPlans.DynamicLinks.Create, treatmentplans.DynamicLinkCreate{
			PractitionerID: f.Practitioner,
			Patient: &treatmentplans.DynamicLinkPatient{
				Email: "link@example.com", FirstName: "Lin", LastName: "Example", Gender: clinic.GenderX,
				DateOfBirth: dispensary.Date{Year: 1980, Month: 2, Day: 29}, MobileNumber: "+15555550155",
				Discount: 5, SendWelcomeEmail: dispensary.Value(false),
			},
		}),

		"allergens.list":          page(f.Client.Catalog.Allergens.List()),
		"allergens.get":           call1(f.Client.Catalog.Allergens.Get, f.Allergen),
		"brands.list":             page(f.Client.Catalog.Brands.List(catalog.BrandListOptions{Available: true, ClinicPermitted: true})),
		"brands.get":              call1(f.Client.Catalog.Brands.Get, f.Brand),
		"ingredients.list":        page(f.Client.Catalog.Ingredients.List()),
		"ingredients.get":         call1(f.Client.Catalog.Ingredients.Get, f.Ingredient),
		"practitioner_types.list": page(f.Client.Catalog.PractitionerTypes.List()),
		"products.list":           page(f.Client.Catalog.Products.List()),
		"products.get": func(ctx context.Context) (any, error) {
			return f.Client.Catalog.Products.Get(ctx, f.Product, catalog.ForPractitioner(f.Practitioner))
		},
		"products.search": page(f.Client.Catalog.Products.Search(catalog.ProductSearchOptions{
			Query: "a", BrandID: f.Brand, AllergenIDs: []string{f.Allergen}, IngredientIDs: []string{f.Ingredient},
			SupplementTypeIDs: []string{f.SupplementType}, ThirdPartyCertificationIDs: []string{f.Certification},
		})),
		"products.similar":                page(f.Client.Catalog.Products.Similar(f.Product)),
		"supplement_types.list":           page(f.Client.Catalog.SupplementTypes.List()),
		"supplement_types.get":            call1(f.Client.Catalog.SupplementTypes.Get, f.SupplementType),
		"third_party_certifications.list": page(f.Client.Catalog.ThirdPartyCertifications.List()),
		"third_party_certifications.get":  call1(f.Client.Catalog.ThirdPartyCertifications.Get, f.Certification),
		"variants.get":                    call1(f.Client.Catalog.Variants.Get, f.Variant),

		"clinic.get":              call0(f.Client.Clinic.Get),
		"addresses.list":          page(f.Client.Clinic.Addresses.ListForPatient(f.Patient)),
		"categories.list":         page(f.Client.Clinic.Categories.List()),
		"categories.get":          call1(f.Client.Clinic.Categories.Get, f.Category),
		"categories.products":     page(f.Client.Clinic.Categories.Products(f.Category)),
		"orders.list_for_patient": page(f.Client.Clinic.Orders.ListForPatient(f.Patient)),
		"orders.get":              call1(f.Client.Clinic.Orders.Get, f.Order),
		"orders.list": page(f.Client.Clinic.Orders.List(clinic.OrderListOptions{
			PatientID: f.Patient, TreatmentPlanID: f.Plan, OrderNumber: f.OrderNumber, CompletedSince: time.Date(2020, 1, 3, 0, 0, 0, 0, time.UTC),
			SortBy: clinic.OrderSortCompletion, SortOrder: api.SortOrderDescending,
		})),

		"patients.list": page(f.Client.Clinic.Patients.List()),
		"patients.get":  call1(f.Client.Clinic.Patients.Get, f.Patient),
		"patients.create": call1(f.Client.Clinic.Patients.Create, clinic.PatientCreate{
			FirstName: "New", LastName: "Example", Email: "new@example.com", Gender: clinic.GenderFemale,
			DateOfBirth: dispensary.Date{Year: 1980, Month: 2, Day: 29}, MobileNumber: "+15555550156", Discount: 7.5,
			SendWelcomeEmail: dispensary.Value(false), Metadata: clinic.Metadata{ID: "ehr-1"},
		}),
		"patients.update": call2(f.Client.Clinic.Patients.Update, f.Patient, clinic.PatientUpdate{
			Email: dispensary.Value("changed@example.com"), FirstName: dispensary.Value("Changed"), LastName: dispensary.Value("Example"),
			DateOfBirth: dispensary.Null[dispensary.Date](), Gender: dispensary.Value(clinic.GenderX), MobileNumber: dispensary.Value("+15555550157"),
			Discount: dispensary.Value[float64](3), Metadata: dispensary.Value(clinic.Metadata{ID: "ehr-2"}),
		}),
		"patients.search":    page(f.Client.Clinic.Patients.Search(clinic.PatientSearchOptions{Query: "example"})),
		"practitioners.list": page(f.Client.Clinic.Practitioners.List()),
		"practitioners.get":  call1(f.Client.Clinic.Practitioners.Get, f.Practitioner),
		"practitioners.create": call1(f.Client.Clinic.Practitioners.Create, clinic.PractitionerCreate{
			PractitionerTypeID: f.PractitionerType, Email: "doctor@example.com", FirstName: "New", LastName: "Doctor",
			Metadata: clinic.Metadata{ID: "ehr-3"},
		}),
		"practitioners.update": call2(f.Client.Clinic.Practitioners.Update, f.Practitioner, clinic.PractitionerUpdate{
			PractitionerTypeID: dispensary.Value(f.PractitionerType), FirstName: dispensary.Value("Changed"), LastName: dispensary.Value("Doctor"),
			Email: dispensary.Value("changed.doctor@example.com"), Metadata: dispensary.Value(clinic.Metadata{ID: "ehr-4"}),
		}),
		"staff.list": page(f.Client.Clinic.Staff.List()),
		"staff.get":  call1(f.Client.Clinic.Staff.Get, f.Staff),
		"staff.create": call1(f.Client.Clinic.Staff.Create, clinic.StaffMemberCreate{
			Email: "desk@example.com", FirstName: "New", LastName: "Desk", Metadata: clinic.Metadata{ID: "ehr-5"},
		}),
		"staff.update": call2(f.Client.Clinic.Staff.Update, f.Staff, clinic.StaffMemberUpdate{
			FirstName: dispensary.Value("Changed"), LastName: dispensary.Value("Desk"), Email: dispensary.Value("changed.desk@example.com"),
			Metadata: dispensary.Value(clinic.Metadata{ID: "ehr-6"}),
		}),

		"protocols.get": call1(f.Client.TreatmentPlans.Protocols.Get, f.Protocol),
		"protocols.list": page(f.Client.TreatmentPlans.Protocols.ListForPractitioner(f.Practitioner, treatmentplans.ProtocolListOptions{
			CurrentState: treatmentplans.StateActive, OwnershipType: treatmentplans.OwnershipOwned,
			SortBy: treatmentplans.ProtocolSortName, SortOrder: api.SortOrderAscending,
		})),
		//lint:ignore SA1019 templates are deprecated, but still supported
		"templates.get": call1(f.Client.TreatmentPlans.Templates.Get, f.Protocol),
		//lint:ignore SA1019 templates are deprecated, but still supported
		"templates.list": page(f.Client.TreatmentPlans.Templates.ListForPractitioner(f.Practitioner)),

		"treatment_plans.list": page(f.Client.TreatmentPlans.ListForPatient(f.Patient, treatmentplans.ListOptions{
			SortBy: treatmentplans.SortUpdatedAt, SortOrder: api.SortOrderDescending,
		})),
		"treatment_plans.create": call2(f.Client.TreatmentPlans.Create, f.Patient, treatmentplans.PlanCreate{
			PractitionerID: f.Practitioner, Recommendations: f.Recommendations(), PersonalMessage: "Take care",
			State: treatmentplans.StateDraft, Metadata: clinic.Metadata{ID: "ehr-7"},
		}),
		"treatment_plans.get": call1(f.Client.TreatmentPlans.Get, f.Plan),
		"treatment_plans.update": call2(f.Client.TreatmentPlans.Update, f.Draft, treatmentplans.PlanUpdate{
			Recommendations: f.Recommendations(), PersonalMessage: dispensary.Value("Changed"),
			Metadata: dispensary.Value(clinic.Metadata{ID: "ehr-8"}),
		}),
		"treatment_plans.cancel":             call1(f.Client.TreatmentPlans.Cancel, f.Plan),
		"treatment_plans.activate":           call1(f.Client.TreatmentPlans.Activate, f.Draft),
		"treatment_plans.in_office_checkout": call1(f.Client.TreatmentPlans.InOfficeCheckout, f.Plan),

		"metadata.list": call1(f.Client.Clinic.Patients.ByMetadataID, "ehr-1001"),

		"events.get":                  call1(f.Client.Events.Get, f.Event),
		"events.list_clinic_keys":     page(f.Client.Events.List(listed(events.TypeClinicKeyActivated))),
		"events.list_patients":        page(f.Client.Events.List(listed(events.TypePatientCreated))),
		"events.list_treatment_plans": page(f.Client.Events.List(listed(events.TypeTreatmentPlanCreated))),
		"events.list_orders":          page(f.Client.Events.List(listed(events.TypeOrderPlaced))),
		"events.list_products":        page(f.Client.Events.List(listed(events.TypeProductUpdated))),
		"webhook_deliveries.list": page(f.Client.Events.Deliveries.List(events.DeliveryListOptions{
			AttemptedBefore: time.Date(2098, 12, 30, 0, 0, 0, 0, time.UTC), EventID: f.Event, Outcome: events.DeliveryOutcomeUndelivered,
			SortBy: events.DeliverySortAttempt, SortOrder: api.SortOrderDescending,
		})),
	}
}

func listed(kind events.Type) events.ListOptions {
	return events.ListOptions{
		Since: time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC), Types: []events.Type{kind}, SortOrder: api.SortOrderAscending,
	}
}

// OAuth returns an OAuth client for the application of the fake platform.
func OAuth(t testing.TB, platform *dispensarytest.Server) *oauth.Client {
	t.Helper()
	return oauthThrough(t, platform, platform.HTTPClient().Transport)
}

func oauthThrough(t testing.TB, platform *dispensarytest.Server, through http.RoundTripper) *oauth.Client {
	t.Helper()
	app := platform.Application()
	client, err := oauth.New(oauth.Config{
		Site: platform.Site(), Transport: through,
		ClientID: app.ClientID, ClientSecret: dispensary.NewSecret(app.ClientSecret), RedirectURL: app.RedirectURI,
	})
	must(t, err)
	return client
}

// connect authorizes the first user on the authorization page and exchanges the code.
func connect(ctx context.Context, t testing.TB, f *Fixture) (oauth.Token, error) {
	t.Helper()
	client, state := oauthThrough(t, f.Platform, f.HTTP), oauth.NewState()
	address, err := client.AuthorizeURL(state)
	must(t, err)
	back, err := f.Platform.Approve(address, f.Platform.Users()[0])
	must(t, err)
	code, err := oauth.ParseCallback(back.Query(), state)
	must(t, err)
	return client.Exchange(ctx, code)
}

func first[T any](t testing.TB, items func(func(T, error) bool)) T {
	t.Helper()
	for item, err := range items {
		must(t, err)
		return item
	}
	t.Fatalf("the list is empty: %T", *new(T))
	panic("unreachable")
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
