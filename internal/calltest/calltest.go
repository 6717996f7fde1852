// Package calltest has one call of every operation, made by the client. Tests of
// several packages make them: that each reaches its operation, that what is sent
// and answered keeps the contract, that nothing leaks, that every answer decodes.
package calltest

import (
	"context"
	"net/http"
	"testing"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/treatmentplans"
)

// Fixture is a platform with one of everything, and a client for it.
type Fixture struct {
	Platform *dispensarytest.Server
	Client   *dispensary.Client
	HTTP     *http.Client               // what OAuth calls go through
	Options  []dispensary.RequestOption // of every call

	// Ids of the platform's records. Plan is active, Draft is not.
	Patient, Practitioner, Staff, Order, Plan, Draft, Event string
	Product, Variant, Brand, Allergen, Ingredient           string
	SupplementType, Certification, PractitionerType         string
	Category, Protocol                                      string
}

// NewFixture starts a platform and reads the ids of its records through the API.
func NewFixture(t testing.TB) *Fixture {
	t.Helper()
	f := &Fixture{Platform: dispensarytest.New(t)}
	f.HTTP = f.Platform.HTTPClient()
	f.Client = f.Platform.Client(model.User{})
	ctx := t.Context()
	p := f.Platform
	f.Patient, f.Practitioner = p.Patients.All()[0].ID, p.Clinics.Practitioners()[0].ID
	product := first(t, f.Client.Catalog.Products.All(ctx, catalog.ProductListOptions{}))
	f.Product, f.Variant, f.Brand = product.ID, product.PrimaryVariant.ID, product.Brand.ID
	f.Staff = first(t, f.Client.Clinic.Staff.All(ctx, clinic.StaffListOptions{})).ID
	f.Allergen = first(t, f.Client.Catalog.Allergens.All(ctx, catalog.AllergenListOptions{})).ID
	f.Ingredient = first(t, f.Client.Catalog.Ingredients.All(ctx, catalog.IngredientListOptions{})).ID
	f.SupplementType = first(t, f.Client.Catalog.SupplementTypes.All(ctx, catalog.SupplementTypeListOptions{})).ID
	f.Certification = first(t, f.Client.Catalog.ThirdPartyCertifications.All(ctx, catalog.ThirdPartyCertificationListOptions{})).ID
	f.PractitionerType = first(t, f.Client.Catalog.PractitionerTypes.All(ctx, catalog.PractitionerTypeListOptions{})).ID
	f.Category = first(t, f.Client.Clinic.Categories.All(ctx, clinic.CategoryListOptions{})).ID
	f.Protocol = first(t, f.Client.TreatmentPlans.Protocols.All(ctx, f.Practitioner, treatmentplans.ProtocolListOptions{})).ID
	f.Plan, f.Draft = f.newPlan(t, treatmentplans.StateActive), f.newPlan(t, treatmentplans.StateDraft)
	order, event, err := p.Orders.Place(f.Patient, model.NewOrder{PlanIDs: []string{f.Plan}})
	must(t, err)
	f.Order, f.Event = order.ID, event.ID
	return f
}

// Through sends all further calls through a transport that wraps the platform's.
func (f *Fixture) Through(wrap func(http.RoundTripper) http.RoundTripper) {
	f.HTTP = &http.Client{Transport: wrap(f.Platform.HTTPClient().Transport)}
	f.Client = f.Platform.Client(model.User{}, dispensary.WithHTTPClient(f.HTTP))
}

func (f *Fixture) newPlan(t testing.TB, state treatmentplans.State) string {
	t.Helper()
	plan, err := f.Client.TreatmentPlans.Create(t.Context(), f.Patient, treatmentplans.NewPlan{
		PractitionerID: f.Practitioner, State: state, Recommendations: f.Recommendations(),
	})
	must(t, err)
	return plan.ID
}

// Recommendations are what a plan of the fixture recommends.
func (f *Fixture) Recommendations() []treatmentplans.Recommendation {
	return []treatmentplans.Recommendation{{
		VariantID: f.Variant, UnitsToPurchase: 1, Refill: true,
		Dosage: treatmentplans.Dosage{Amount: "1-2", Frequency: treatmentplans.TwicePerDay, Duration: "30", Format: treatmentplans.Capsule},
	}}
}

// Call makes one call of an operation.
type Call func(ctx context.Context, f *Fixture) (any, error)

// single wraps a method that takes an id.
func single[T any](get func(f *Fixture) (*T, error)) Call {
	return func(_ context.Context, f *Fixture) (any, error) { return get(f) }
}

// All has one call for every operation, by its name.
func All(t testing.TB) map[string]Call {
	ctx := t.Context()
	page := dispensary.Paging{PageSize: 2}
	return map[string]Call{
		"oauth.authorize": func(_ context.Context, f *Fixture) (any, error) {
			client := oauthThrough(t, f.Platform, f.HTTP)
			address, err := client.AuthorizeURL("state")
			if err != nil {
				return nil, err
			}
			return f.Platform.Approve(address, f.Platform.Users()[0])
		},
		"oauth.token": func(_ context.Context, f *Fixture) (any, error) { return Connect(t, f) },
		"oauth.revoke": func(_ context.Context, f *Fixture) (any, error) {
			token, err := Connect(t, f)
			if err != nil {
				return nil, err
			}
			return nil, oauthThrough(t, f.Platform, f.HTTP).Revoke(ctx, token, f.Options...)
		},

		"dynamic_links.get": single(func(f *Fixture) (*treatmentplans.DynamicLink, error) {
			return f.Client.TreatmentPlans.DynamicLinks.Get(ctx, f.Draft, f.Options...)
		}),
		"dynamic_links.new": func(_ context.Context, f *Fixture) (any, error) {
			return f.Client.TreatmentPlans.DynamicLinks.EmptyPlanURL(ctx, f.Options...)
		},
		"dynamic_links.create": single(func(f *Fixture) (*treatmentplans.DynamicLink, error) {
			return f.Client.TreatmentPlans.DynamicLinks.Create(ctx, treatmentplans.NewDynamicLink{
				PractitionerID: f.Practitioner,
				Patient: &treatmentplans.LinkPatient{
					Email: "link@example.com", FirstName: "Lin", LastName: "Example", Gender: clinic.X,
					DateOfBirth: dispensary.Date{Year: 1980, Month: 2, Day: 29}, MobileNumber: "+15555550155",
					Discount: 5, SendWelcomeEmail: dispensary.Value(false),
				},
			}, f.Options...)
		}),

		"allergens.list": func(_ context.Context, f *Fixture) (any, error) {
			return f.Client.Catalog.Allergens.List(ctx, catalog.AllergenListOptions{Paging: page}, f.Options...)
		},
		"allergens.get": single(func(f *Fixture) (*catalog.Allergen, error) {
			return f.Client.Catalog.Allergens.Get(ctx, f.Allergen, f.Options...)
		}),
		"brands.list": func(_ context.Context, f *Fixture) (any, error) {
			return f.Client.Catalog.Brands.List(ctx, catalog.BrandListOptions{Available: true, ClinicPermitted: true, Paging: page}, f.Options...)
		},
		"brands.get": single(func(f *Fixture) (*catalog.Brand, error) {
			return f.Client.Catalog.Brands.Get(ctx, f.Brand, f.Options...)
		}),
		"ingredients.list": func(_ context.Context, f *Fixture) (any, error) {
			return f.Client.Catalog.Ingredients.List(ctx, catalog.IngredientListOptions{Paging: page}, f.Options...)
		},
		"ingredients.get": single(func(f *Fixture) (*catalog.Ingredient, error) {
			return f.Client.Catalog.Ingredients.Get(ctx, f.Ingredient, f.Options...)
		}),
		"practitioner_types.list": func(_ context.Context, f *Fixture) (any, error) {
			return f.Client.Catalog.PractitionerTypes.List(ctx, catalog.PractitionerTypeListOptions{Paging: page}, f.Options...)
		},
		"products.list": func(_ context.Context, f *Fixture) (any, error) {
			return f.Client.Catalog.Products.List(ctx, catalog.ProductListOptions{Paging: page}, f.Options...)
		},
		"products.get": single(func(f *Fixture) (*catalog.Product, error) {
			return f.Client.Catalog.Products.Get(ctx, f.Product, catalog.ProductGetOptions{PractitionerID: f.Practitioner}, f.Options...)
		}),
		"products.search": func(_ context.Context, f *Fixture) (any, error) {
			return f.Client.Catalog.Products.Search(ctx, catalog.ProductSearchOptions{
				Query: "a", BrandID: f.Brand, AllergenIDs: []string{f.Allergen}, IngredientIDs: []string{f.Ingredient},
				SupplementTypeIDs: []string{f.SupplementType}, ThirdPartyCertificationIDs: []string{f.Certification}, Paging: page,
			}, f.Options...)
		},
		"products.similar": func(_ context.Context, f *Fixture) (any, error) {
			return f.Client.Catalog.Products.Similar(ctx, f.Product, catalog.ProductListOptions{Paging: page}, f.Options...)
		},
		"supplement_types.list": func(_ context.Context, f *Fixture) (any, error) {
			return f.Client.Catalog.SupplementTypes.List(ctx, catalog.SupplementTypeListOptions{Paging: page}, f.Options...)
		},
		"supplement_types.get": single(func(f *Fixture) (*catalog.SupplementType, error) {
			return f.Client.Catalog.SupplementTypes.Get(ctx, f.SupplementType, f.Options...)
		}),
		"third_party_certifications.list": func(_ context.Context, f *Fixture) (any, error) {
			return f.Client.Catalog.ThirdPartyCertifications.List(ctx, catalog.ThirdPartyCertificationListOptions{Paging: page}, f.Options...)
		},
		"third_party_certifications.get": single(func(f *Fixture) (*catalog.ThirdPartyCertification, error) {
			return f.Client.Catalog.ThirdPartyCertifications.Get(ctx, f.Certification, f.Options...)
		}),
		"variants.get": single(func(f *Fixture) (*catalog.Variant, error) {
			return f.Client.Catalog.Variants.Get(ctx, f.Variant, f.Options...)
		}),

		"clinic.get": single(func(f *Fixture) (*clinic.Clinic, error) { return f.Client.Clinic.Get(ctx, f.Options...) }),
		"addresses.list": func(_ context.Context, f *Fixture) (any, error) {
			return f.Client.Clinic.Addresses.List(ctx, f.Patient, clinic.AddressListOptions{Paging: page}, f.Options...)
		},
		"categories.list": func(_ context.Context, f *Fixture) (any, error) {
			return f.Client.Clinic.Categories.List(ctx, clinic.CategoryListOptions{Paging: page}, f.Options...)
		},
		"categories.get": single(func(f *Fixture) (*clinic.Category, error) {
			return f.Client.Clinic.Categories.Get(ctx, f.Category, f.Options...)
		}),
		"categories.products": func(_ context.Context, f *Fixture) (any, error) {
			return f.Client.Clinic.Categories.Products(ctx, f.Category, clinic.CategoryListOptions{Paging: page}, f.Options...)
		},
		"orders.list_for_patient": func(_ context.Context, f *Fixture) (any, error) {
			return f.Client.Clinic.Orders.ListForPatient(ctx, f.Patient, clinic.PatientOrderListOptions{Paging: page}, f.Options...)
		},
		"orders.get": single(func(f *Fixture) (*clinic.Order, error) {
			return f.Client.Clinic.Orders.Get(ctx, f.Order, f.Options...)
		}),
		"orders.list": func(_ context.Context, f *Fixture) (any, error) {
			return f.Client.Clinic.Orders.List(ctx, clinic.OrderListOptions{
				PatientID: f.Patient, TreatmentPlanID: f.Plan, CompletedAt: dispensary.DateAfter(dispensary.Date{Year: 2020, Month: 1, Day: 1}),
				SortBy: clinic.OrdersByCompletion, Order: dispensary.Descending, Paging: page,
			}, f.Options...)
		},

		"patients.list": func(_ context.Context, f *Fixture) (any, error) {
			return f.Client.Clinic.Patients.List(ctx, clinic.PatientListOptions{Paging: page}, f.Options...)
		},
		"patients.get": single(func(f *Fixture) (*clinic.Patient, error) {
			return f.Client.Clinic.Patients.Get(ctx, f.Patient, f.Options...)
		}),
		"patients.create": single(func(f *Fixture) (*clinic.Patient, error) {
			return f.Client.Clinic.Patients.Create(ctx, clinic.NewPatient{
				FirstName: "New", LastName: "Example", Email: "new@example.com", Gender: clinic.Female,
				DateOfBirth: dispensary.Date{Year: 1980, Month: 2, Day: 29}, MobileNumber: "+15555550156", Discount: 7.5,
				SendWelcomeEmail: dispensary.Value(false), Metadata: clinic.Metadata{ID: "ehr-1"},
			}, f.Options...)
		}),
		"patients.update": single(func(f *Fixture) (*clinic.Patient, error) {
			return f.Client.Clinic.Patients.Update(ctx, f.Patient, clinic.PatientUpdate{
				Email: dispensary.Value("changed@example.com"), FirstName: dispensary.Value("Changed"), LastName: dispensary.Value("Example"),
				DateOfBirth: dispensary.Null[dispensary.Date](), Gender: dispensary.Value(clinic.X), MobileNumber: dispensary.Value("+15555550157"),
				Discount: dispensary.Value[dispensary.Percent](3), Metadata: dispensary.Value(clinic.Metadata{ID: "ehr-2"}),
			}, f.Options...)
		}),
		"patients.search": func(_ context.Context, f *Fixture) (any, error) {
			return f.Client.Clinic.Patients.Search(ctx, clinic.PatientSearchOptions{Query: "example", Paging: page}, f.Options...)
		},
		"practitioners.list": func(_ context.Context, f *Fixture) (any, error) {
			return f.Client.Clinic.Practitioners.List(ctx, clinic.PractitionerListOptions{Paging: page}, f.Options...)
		},
		"practitioners.get": single(func(f *Fixture) (*clinic.Practitioner, error) {
			return f.Client.Clinic.Practitioners.Get(ctx, f.Practitioner, f.Options...)
		}),
		"practitioners.create": single(func(f *Fixture) (*clinic.Practitioner, error) {
			return f.Client.Clinic.Practitioners.Create(ctx, clinic.NewPractitioner{
				PractitionerTypeID: f.PractitionerType, Email: "doctor@example.com", FirstName: "New", LastName: "Doctor",
				Metadata: clinic.Metadata{ID: "ehr-3"},
			}, f.Options...)
		}),
		"practitioners.update": single(func(f *Fixture) (*clinic.Practitioner, error) {
			return f.Client.Clinic.Practitioners.Update(ctx, f.Practitioner, clinic.PractitionerUpdate{
				PractitionerTypeID: dispensary.Value(f.PractitionerType), FirstName: dispensary.Value("Changed"), LastName: dispensary.Value("Doctor"),
				Email: dispensary.Value("changed.doctor@example.com"), Metadata: dispensary.Value(clinic.Metadata{ID: "ehr-4"}),
			}, f.Options...)
		}),
		"staff.list": func(_ context.Context, f *Fixture) (any, error) {
			return f.Client.Clinic.Staff.List(ctx, clinic.StaffListOptions{Paging: page}, f.Options...)
		},
		"staff.get": single(func(f *Fixture) (*clinic.StaffMember, error) {
			return f.Client.Clinic.Staff.Get(ctx, f.Staff, f.Options...)
		}),
		"staff.create": single(func(f *Fixture) (*clinic.StaffMember, error) {
			return f.Client.Clinic.Staff.Create(ctx, clinic.NewStaffMember{
				Email: "desk@example.com", FirstName: "New", LastName: "Desk", Metadata: clinic.Metadata{ID: "ehr-5"},
			}, f.Options...)
		}),
		"staff.update": single(func(f *Fixture) (*clinic.StaffMember, error) {
			return f.Client.Clinic.Staff.Update(ctx, f.Staff, clinic.StaffMemberUpdate{
				FirstName: dispensary.Value("Changed"), LastName: dispensary.Value("Desk"), Email: dispensary.Value("changed.desk@example.com"),
				Metadata: dispensary.Value(clinic.Metadata{ID: "ehr-6"}),
			}, f.Options...)
		}),

		"protocols.get": single(func(f *Fixture) (*treatmentplans.Protocol, error) {
			return f.Client.TreatmentPlans.Protocols.Get(ctx, f.Protocol, f.Options...)
		}),
		"protocols.list": func(_ context.Context, f *Fixture) (any, error) {
			return f.Client.TreatmentPlans.Protocols.List(ctx, f.Practitioner, treatmentplans.ProtocolListOptions{
				CurrentState: treatmentplans.StateActive, OwnershipType: treatmentplans.Owned,
				SortBy: treatmentplans.ProtocolsByName, Order: dispensary.Ascending, Paging: page,
			}, f.Options...)
		},
		"templates.get": func(_ context.Context, f *Fixture) (any, error) {
			//lint:ignore SA1019 templates are deprecated, and still there
			return f.Client.TreatmentPlans.Templates.Get(ctx, f.Protocol, f.Options...)
		},
		"templates.list": func(_ context.Context, f *Fixture) (any, error) {
			//lint:ignore SA1019 templates are deprecated, and still there
			return f.Client.TreatmentPlans.Templates.List(ctx, f.Practitioner, treatmentplans.TemplateListOptions{Paging: page}, f.Options...)
		},

		"treatment_plans.list": func(_ context.Context, f *Fixture) (any, error) {
			return f.Client.TreatmentPlans.List(ctx, f.Patient, treatmentplans.ListOptions{
				SortBy: treatmentplans.ByUpdatedAt, Order: dispensary.Descending, Paging: page,
			}, f.Options...)
		},
		"treatment_plans.create": single(func(f *Fixture) (*treatmentplans.Plan, error) {
			return f.Client.TreatmentPlans.Create(ctx, f.Patient, treatmentplans.NewPlan{
				PractitionerID: f.Practitioner, Recommendations: f.Recommendations(), PersonalMessage: "Take care",
				State: treatmentplans.StateDraft, Metadata: clinic.Metadata{ID: "ehr-7"},
			}, f.Options...)
		}),
		"treatment_plans.get": single(func(f *Fixture) (*treatmentplans.Plan, error) {
			return f.Client.TreatmentPlans.Get(ctx, f.Plan, f.Options...)
		}),
		"treatment_plans.update": single(func(f *Fixture) (*treatmentplans.Plan, error) {
			return f.Client.TreatmentPlans.Update(ctx, f.Draft, treatmentplans.PlanUpdate{
				Recommendations: f.Recommendations(), PersonalMessage: dispensary.Value("Changed"),
				Metadata: dispensary.Value(clinic.Metadata{ID: "ehr-8"}),
			}, f.Options...)
		}),
		"treatment_plans.cancel": single(func(f *Fixture) (*treatmentplans.Plan, error) {
			return f.Client.TreatmentPlans.Cancel(ctx, f.Plan, f.Options...)
		}),
		"treatment_plans.activate": single(func(f *Fixture) (*treatmentplans.Plan, error) {
			return f.Client.TreatmentPlans.Activate(ctx, f.Draft, f.Options...)
		}),
		"treatment_plans.in_office_checkout": single(func(f *Fixture) (*treatmentplans.Checkout, error) {
			return f.Client.TreatmentPlans.InOfficeCheckout(ctx, f.Plan, f.Options...)
		}),

		"metadata.list": func(_ context.Context, f *Fixture) (any, error) {
			return f.Client.Clinic.Metadata.List(ctx, clinic.MetadataListOptions{ID: "ehr-1", Type: clinic.MetadataPatient, Paging: page}, f.Options...)
		},

		"events.get": single(func(f *Fixture) (*events.Event, error) {
			return f.Client.Events.Get(ctx, f.Event, f.Options...)
		}),
		"events.list_clinic_keys":     group(func(f *Fixture) events.Group { return f.Client.Events.ClinicKeys }, events.ClinicKeyActivated),
		"events.list_patients":        group(func(f *Fixture) events.Group { return f.Client.Events.Patients }, events.PatientCreated),
		"events.list_treatment_plans": group(func(f *Fixture) events.Group { return f.Client.Events.TreatmentPlans }, events.TreatmentPlanCreated),
		"events.list_orders":          group(func(f *Fixture) events.Group { return f.Client.Events.Orders }, events.OrderPlaced),
		"events.list_products":        group(func(f *Fixture) events.Group { return f.Client.Events.Products }, events.ProductUpdated),
		"webhook_deliveries.list": func(_ context.Context, f *Fixture) (any, error) {
			return f.Client.Events.Deliveries.List(ctx, events.DeliveryListOptions{
				AttemptedAt: dispensary.DateBefore(dispensary.Date{Year: 2099, Month: 1, Day: 1}), EventID: f.Event, Outcome: events.Undelivered,
				SortBy: events.DeliveriesByAttempt, Order: dispensary.Descending, Paging: page,
			}, f.Options...)
		},
	}
}

func group(of func(*Fixture) events.Group, kind events.Type) Call {
	return func(ctx context.Context, f *Fixture) (any, error) {
		return of(f).List(ctx, events.ListOptions{
			CreatedAt: dispensary.DateRange(dispensary.Date{Year: 2020, Month: 1, Day: 1}, dispensary.Date{Year: 2099, Month: 1, Day: 1}),
			Type:      kind, SortBy: events.ByCreatedAt, Order: dispensary.Descending, Paging: dispensary.Paging{PageSize: 2},
		}, f.Options...)
	}
}

// OAuth returns the OAuth client of the platform's application.
func OAuth(t testing.TB, platform *dispensarytest.Server) *oauth.Client {
	t.Helper()
	return oauthThrough(t, platform, platform.HTTPClient())
}

func oauthThrough(t testing.TB, platform *dispensarytest.Server, through *http.Client) *oauth.Client {
	t.Helper()
	app := platform.Application()
	client, err := oauth.New(oauth.Config{
		Site: platform.Site(), HTTPClient: through,
		ClientID: app.ClientID, ClientSecret: dispensary.Secret(app.ClientSecret), RedirectURL: app.RedirectURI,
	})
	must(t, err)
	return client
}

// Connect takes a user through the authorization page and exchanges the code.
func Connect(t testing.TB, f *Fixture) (oauth.Token, error) {
	t.Helper()
	client, state := oauthThrough(t, f.Platform, f.HTTP), oauth.NewState()
	address, err := client.AuthorizeURL(state)
	must(t, err)
	back, err := f.Platform.Approve(address, f.Platform.Users()[0])
	must(t, err)
	code, err := oauth.ParseCallback(back.Query(), state)
	must(t, err)
	return client.Exchange(t.Context(), code, f.Options...)
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
