// Package calls has one call of every operation, made by the client. Tests of
// several packages make them: that each reaches its operation, that what is sent
// and answered keeps the contract, that nothing leaks, that every answer decodes.
package calls

import (
	"context"
	"net/http"
	"testing"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/treatmentplans"
)

// Scene is a platform with one of everything, and a client for it.
type Scene struct {
	Platform *dispensarytest.Server
	Client   *dispensary.Client
	HTTP     *http.Client               // what OAuth calls go through
	Options  []dispensary.RequestOption // of every call

	// Ids of the platform's world. Plan is active, Draft is not.
	Patient, Practitioner, Staff, Order, Plan, Draft, Event string
	Product, Variant, Brand, Allergen, Ingredient           string
	SupplementType, Certification, PractitionerType         string
	Category, Protocol                                      string
}

// NewScene starts a platform and learns the ids of its world through the API itself.
func NewScene(t testing.TB) *Scene {
	t.Helper()
	s := &Scene{Platform: dispensarytest.New(t)}
	s.HTTP = s.Platform.HTTPClient()
	s.Client = s.Platform.Client(dispensarytest.User{})
	ctx := t.Context()
	p := s.Platform.Platform()
	s.Patient, s.Practitioner = p.Patients()[0].ID, p.Practitioners()[0].ID
	product := first(t, s.Client.Catalog.Products.All(ctx, catalog.ProductListOptions{}))
	s.Product, s.Variant, s.Brand = product.ID, product.PrimaryVariant.ID, product.Brand.ID
	s.Staff = first(t, s.Client.Clinic.Staff.All(ctx, clinic.StaffListOptions{})).ID
	s.Allergen = first(t, s.Client.Catalog.Allergens.All(ctx, catalog.AllergenListOptions{})).ID
	s.Ingredient = first(t, s.Client.Catalog.Ingredients.All(ctx, catalog.IngredientListOptions{})).ID
	s.SupplementType = first(t, s.Client.Catalog.SupplementTypes.All(ctx, catalog.SupplementTypeListOptions{})).ID
	s.Certification = first(t, s.Client.Catalog.ThirdPartyCertifications.All(ctx, catalog.ThirdPartyCertificationListOptions{})).ID
	s.PractitionerType = first(t, s.Client.Catalog.PractitionerTypes.All(ctx, catalog.PractitionerTypeListOptions{})).ID
	s.Category = first(t, s.Client.Clinic.Categories.All(ctx, clinic.CategoryListOptions{})).ID
	s.Protocol = first(t, s.Client.TreatmentPlans.Protocols.All(ctx, s.Practitioner, treatmentplans.ProtocolListOptions{})).ID
	s.Plan, s.Draft = s.newPlan(t, treatmentplans.StateActive), s.newPlan(t, treatmentplans.StateDraft)
	order, event, err := p.PlaceOrder(s.Patient, dispensarytest.NewOrder{PlanIDs: []string{s.Plan}})
	must(t, err)
	s.Order, s.Event = order.ID, event.ID
	return s
}

// Through sends all further calls through a transport that wraps the platform's.
func (s *Scene) Through(wrap func(http.RoundTripper) http.RoundTripper) {
	s.HTTP = &http.Client{Transport: wrap(s.Platform.HTTPClient().Transport)}
	s.Client = s.Platform.Client(dispensarytest.User{}, dispensary.WithHTTPClient(s.HTTP))
}

func (s *Scene) newPlan(t testing.TB, state treatmentplans.State) string {
	t.Helper()
	plan, err := s.Client.TreatmentPlans.Create(t.Context(), s.Patient, treatmentplans.NewPlan{
		PractitionerID: s.Practitioner, State: state, Recommendations: s.Recommendations(),
	})
	must(t, err)
	return plan.ID
}

// Recommendations are what a plan of the scene recommends.
func (s *Scene) Recommendations() []treatmentplans.Recommendation {
	return []treatmentplans.Recommendation{{
		VariantID: s.Variant, UnitsToPurchase: 1, Refill: true,
		Dosage: treatmentplans.Dosage{Amount: "1-2", Frequency: treatmentplans.TwicePerDay, Duration: "30", Format: treatmentplans.Capsule},
	}}
}

// Call makes one call of an operation.
type Call func(ctx context.Context, s *Scene) (any, error)

// single wraps a method that takes an id.
func single[T any](get func(s *Scene) (*T, error)) Call {
	return func(_ context.Context, s *Scene) (any, error) { return get(s) }
}

// All has one call for every operation, by its name.
func All(t testing.TB) map[string]Call {
	ctx := t.Context()
	page := dispensary.Paging{PageSize: 2}
	return map[string]Call{
		"oauth.authorize": func(_ context.Context, s *Scene) (any, error) {
			client := oauthThrough(t, s.Platform, s.HTTP)
			address, err := client.AuthorizeURL("state")
			if err != nil {
				return nil, err
			}
			return s.Platform.Approve(address, s.Platform.Users()[0])
		},
		"oauth.token": func(_ context.Context, s *Scene) (any, error) { return Connect(t, s) },
		"oauth.revoke": func(_ context.Context, s *Scene) (any, error) {
			token, err := Connect(t, s)
			if err != nil {
				return nil, err
			}
			return nil, oauthThrough(t, s.Platform, s.HTTP).Revoke(ctx, token, s.Options...)
		},

		"dynamic_links.get": single(func(s *Scene) (*treatmentplans.DynamicLink, error) {
			return s.Client.TreatmentPlans.DynamicLinks.Get(ctx, s.Draft, s.Options...)
		}),
		"dynamic_links.new": func(_ context.Context, s *Scene) (any, error) {
			return s.Client.TreatmentPlans.DynamicLinks.New(ctx, s.Options...)
		},
		"dynamic_links.create": single(func(s *Scene) (*treatmentplans.DynamicLink, error) {
			return s.Client.TreatmentPlans.DynamicLinks.Create(ctx, treatmentplans.NewDynamicLink{
				PractitionerID: s.Practitioner,
				Patient: &treatmentplans.LinkPatient{
					Email: "link@example.com", FirstName: "Lin", LastName: "Example", Gender: clinic.X,
					DateOfBirth: dispensary.Date{Year: 1980, Month: 2, Day: 29}, MobileNumber: "+15555550155",
					Discount: 5, SendWelcomeEmail: dispensary.Value(false),
				},
			}, s.Options...)
		}),

		"allergens.list": func(_ context.Context, s *Scene) (any, error) {
			return s.Client.Catalog.Allergens.List(ctx, catalog.AllergenListOptions{Paging: page}, s.Options...)
		},
		"allergens.get": single(func(s *Scene) (*catalog.Allergen, error) {
			return s.Client.Catalog.Allergens.Get(ctx, s.Allergen, s.Options...)
		}),
		"brands.list": func(_ context.Context, s *Scene) (any, error) {
			return s.Client.Catalog.Brands.List(ctx, catalog.BrandListOptions{Available: true, ClinicPermitted: true, Paging: page}, s.Options...)
		},
		"brands.get": single(func(s *Scene) (*catalog.Brand, error) {
			return s.Client.Catalog.Brands.Get(ctx, s.Brand, s.Options...)
		}),
		"ingredients.list": func(_ context.Context, s *Scene) (any, error) {
			return s.Client.Catalog.Ingredients.List(ctx, catalog.IngredientListOptions{Paging: page}, s.Options...)
		},
		"ingredients.get": single(func(s *Scene) (*catalog.Ingredient, error) {
			return s.Client.Catalog.Ingredients.Get(ctx, s.Ingredient, s.Options...)
		}),
		"practitioner_types.list": func(_ context.Context, s *Scene) (any, error) {
			return s.Client.Catalog.PractitionerTypes.List(ctx, catalog.PractitionerTypeListOptions{Paging: page}, s.Options...)
		},
		"products.list": func(_ context.Context, s *Scene) (any, error) {
			return s.Client.Catalog.Products.List(ctx, catalog.ProductListOptions{Paging: page}, s.Options...)
		},
		"products.get": single(func(s *Scene) (*catalog.Product, error) {
			return s.Client.Catalog.Products.Get(ctx, s.Product, catalog.ProductGetOptions{PractitionerID: s.Practitioner}, s.Options...)
		}),
		"products.search": func(_ context.Context, s *Scene) (any, error) {
			return s.Client.Catalog.Products.Search(ctx, catalog.ProductSearchOptions{
				Query: "a", BrandID: s.Brand, AllergenIDs: []string{s.Allergen}, IngredientIDs: []string{s.Ingredient},
				SupplementTypeIDs: []string{s.SupplementType}, ThirdPartyCertificationIDs: []string{s.Certification}, Paging: page,
			}, s.Options...)
		},
		"products.similar": func(_ context.Context, s *Scene) (any, error) {
			return s.Client.Catalog.Products.Similar(ctx, s.Product, catalog.ProductListOptions{Paging: page}, s.Options...)
		},
		"supplement_types.list": func(_ context.Context, s *Scene) (any, error) {
			return s.Client.Catalog.SupplementTypes.List(ctx, catalog.SupplementTypeListOptions{Paging: page}, s.Options...)
		},
		"supplement_types.get": single(func(s *Scene) (*catalog.SupplementType, error) {
			return s.Client.Catalog.SupplementTypes.Get(ctx, s.SupplementType, s.Options...)
		}),
		"third_party_certifications.list": func(_ context.Context, s *Scene) (any, error) {
			return s.Client.Catalog.ThirdPartyCertifications.List(ctx, catalog.ThirdPartyCertificationListOptions{Paging: page}, s.Options...)
		},
		"third_party_certifications.get": single(func(s *Scene) (*catalog.ThirdPartyCertification, error) {
			return s.Client.Catalog.ThirdPartyCertifications.Get(ctx, s.Certification, s.Options...)
		}),
		"variants.get": single(func(s *Scene) (*catalog.Variant, error) {
			return s.Client.Catalog.Variants.Get(ctx, s.Variant, s.Options...)
		}),

		"clinic.get": single(func(s *Scene) (*clinic.Clinic, error) { return s.Client.Clinic.Get(ctx, s.Options...) }),
		"addresses.list": func(_ context.Context, s *Scene) (any, error) {
			return s.Client.Clinic.Addresses.List(ctx, s.Patient, clinic.AddressListOptions{Paging: page}, s.Options...)
		},
		"categories.list": func(_ context.Context, s *Scene) (any, error) {
			return s.Client.Clinic.Categories.List(ctx, clinic.CategoryListOptions{Paging: page}, s.Options...)
		},
		"categories.get": single(func(s *Scene) (*clinic.Category, error) {
			return s.Client.Clinic.Categories.Get(ctx, s.Category, s.Options...)
		}),
		"categories.products": func(_ context.Context, s *Scene) (any, error) {
			return s.Client.Clinic.Categories.Products(ctx, s.Category, clinic.CategoryListOptions{Paging: page}, s.Options...)
		},
		"orders.list_for_patient": func(_ context.Context, s *Scene) (any, error) {
			return s.Client.Clinic.Orders.ListForPatient(ctx, s.Patient, clinic.PatientOrderListOptions{Paging: page}, s.Options...)
		},
		"orders.get": single(func(s *Scene) (*clinic.Order, error) {
			return s.Client.Clinic.Orders.Get(ctx, s.Order, s.Options...)
		}),
		"orders.list": func(_ context.Context, s *Scene) (any, error) {
			return s.Client.Clinic.Orders.List(ctx, clinic.OrderListOptions{
				PatientID: s.Patient, TreatmentPlanID: s.Plan, CompletedAt: dispensary.DateAfter(dispensary.Date{Year: 2020, Month: 1, Day: 1}),
				SortBy: clinic.OrdersByCompletion, Order: dispensary.Descending, Paging: page,
			}, s.Options...)
		},

		"patients.list": func(_ context.Context, s *Scene) (any, error) {
			return s.Client.Clinic.Patients.List(ctx, clinic.PatientListOptions{Paging: page}, s.Options...)
		},
		"patients.get": single(func(s *Scene) (*clinic.Patient, error) {
			return s.Client.Clinic.Patients.Get(ctx, s.Patient, s.Options...)
		}),
		"patients.create": single(func(s *Scene) (*clinic.Patient, error) {
			return s.Client.Clinic.Patients.Create(ctx, clinic.NewPatient{
				FirstName: "New", LastName: "Example", Email: "new@example.com", Gender: clinic.Female,
				DateOfBirth: dispensary.Date{Year: 1980, Month: 2, Day: 29}, MobileNumber: "+15555550156", Discount: 7.5,
				SendWelcomeEmail: dispensary.Value(false), Metadata: clinic.Metadata{ID: "ehr-1"},
			}, s.Options...)
		}),
		"patients.update": single(func(s *Scene) (*clinic.Patient, error) {
			return s.Client.Clinic.Patients.Update(ctx, s.Patient, clinic.PatientUpdate{
				Email: dispensary.Value("changed@example.com"), FirstName: dispensary.Value("Changed"), LastName: dispensary.Value("Example"),
				DateOfBirth: dispensary.Null[dispensary.Date](), Gender: dispensary.Value(clinic.X), MobileNumber: dispensary.Value("+15555550157"),
				Discount: dispensary.Value[dispensary.Percent](3), Metadata: dispensary.Value(clinic.Metadata{ID: "ehr-2"}),
			}, s.Options...)
		}),
		"patients.search": func(_ context.Context, s *Scene) (any, error) {
			return s.Client.Clinic.Patients.Search(ctx, clinic.PatientSearchOptions{Query: "example", Paging: page}, s.Options...)
		},
		"practitioners.list": func(_ context.Context, s *Scene) (any, error) {
			return s.Client.Clinic.Practitioners.List(ctx, clinic.PractitionerListOptions{Paging: page}, s.Options...)
		},
		"practitioners.get": single(func(s *Scene) (*clinic.Practitioner, error) {
			return s.Client.Clinic.Practitioners.Get(ctx, s.Practitioner, s.Options...)
		}),
		"practitioners.create": single(func(s *Scene) (*clinic.Practitioner, error) {
			return s.Client.Clinic.Practitioners.Create(ctx, clinic.NewPractitioner{
				PractitionerTypeID: s.PractitionerType, Email: "doctor@example.com", FirstName: "New", LastName: "Doctor",
				Metadata: clinic.Metadata{ID: "ehr-3"},
			}, s.Options...)
		}),
		"practitioners.update": single(func(s *Scene) (*clinic.Practitioner, error) {
			return s.Client.Clinic.Practitioners.Update(ctx, s.Practitioner, clinic.PractitionerUpdate{
				PractitionerTypeID: dispensary.Value(s.PractitionerType), FirstName: dispensary.Value("Changed"), LastName: dispensary.Value("Doctor"),
				Email: dispensary.Value("changed.doctor@example.com"), Metadata: dispensary.Value(clinic.Metadata{ID: "ehr-4"}),
			}, s.Options...)
		}),
		"staff.list": func(_ context.Context, s *Scene) (any, error) {
			return s.Client.Clinic.Staff.List(ctx, clinic.StaffListOptions{Paging: page}, s.Options...)
		},
		"staff.get": single(func(s *Scene) (*clinic.StaffMember, error) {
			return s.Client.Clinic.Staff.Get(ctx, s.Staff, s.Options...)
		}),
		"staff.create": single(func(s *Scene) (*clinic.StaffMember, error) {
			return s.Client.Clinic.Staff.Create(ctx, clinic.NewStaffMember{
				Email: "desk@example.com", FirstName: "New", LastName: "Desk", Metadata: clinic.Metadata{ID: "ehr-5"},
			}, s.Options...)
		}),
		"staff.update": single(func(s *Scene) (*clinic.StaffMember, error) {
			return s.Client.Clinic.Staff.Update(ctx, s.Staff, clinic.StaffMemberUpdate{
				FirstName: dispensary.Value("Changed"), LastName: dispensary.Value("Desk"), Email: dispensary.Value("changed.desk@example.com"),
				Metadata: dispensary.Value(clinic.Metadata{ID: "ehr-6"}),
			}, s.Options...)
		}),

		"protocols.get": single(func(s *Scene) (*treatmentplans.Protocol, error) {
			return s.Client.TreatmentPlans.Protocols.Get(ctx, s.Protocol, s.Options...)
		}),
		"protocols.list": func(_ context.Context, s *Scene) (any, error) {
			return s.Client.TreatmentPlans.Protocols.List(ctx, s.Practitioner, treatmentplans.ProtocolListOptions{
				CurrentState: treatmentplans.StateActive, OwnershipType: treatmentplans.Owned,
				SortBy: treatmentplans.ProtocolsByName, Order: dispensary.Ascending, Paging: page,
			}, s.Options...)
		},
		"templates.get": func(_ context.Context, s *Scene) (any, error) {
			//lint:ignore SA1019 templates are deprecated, and still there
			return s.Client.TreatmentPlans.Templates.Get(ctx, s.Protocol, s.Options...)
		},
		"templates.list": func(_ context.Context, s *Scene) (any, error) {
			//lint:ignore SA1019 templates are deprecated, and still there
			return s.Client.TreatmentPlans.Templates.List(ctx, s.Practitioner, treatmentplans.TemplateListOptions{Paging: page}, s.Options...)
		},

		"treatment_plans.list": func(_ context.Context, s *Scene) (any, error) {
			return s.Client.TreatmentPlans.List(ctx, s.Patient, treatmentplans.ListOptions{
				SortBy: treatmentplans.ByUpdatedAt, Order: dispensary.Descending, Paging: page,
			}, s.Options...)
		},
		"treatment_plans.create": single(func(s *Scene) (*treatmentplans.Plan, error) {
			return s.Client.TreatmentPlans.Create(ctx, s.Patient, treatmentplans.NewPlan{
				PractitionerID: s.Practitioner, Recommendations: s.Recommendations(), PersonalMessage: "Take care",
				State: treatmentplans.StateDraft, Metadata: clinic.Metadata{ID: "ehr-7"},
			}, s.Options...)
		}),
		"treatment_plans.get": single(func(s *Scene) (*treatmentplans.Plan, error) {
			return s.Client.TreatmentPlans.Get(ctx, s.Plan, s.Options...)
		}),
		"treatment_plans.update": single(func(s *Scene) (*treatmentplans.Plan, error) {
			return s.Client.TreatmentPlans.Update(ctx, s.Draft, treatmentplans.PlanUpdate{
				Recommendations: s.Recommendations(), PersonalMessage: dispensary.Value("Changed"),
				Metadata: dispensary.Value(clinic.Metadata{ID: "ehr-8"}),
			}, s.Options...)
		}),
		"treatment_plans.cancel": single(func(s *Scene) (*treatmentplans.Plan, error) {
			return s.Client.TreatmentPlans.Cancel(ctx, s.Plan, s.Options...)
		}),
		"treatment_plans.activate": single(func(s *Scene) (*treatmentplans.Plan, error) {
			return s.Client.TreatmentPlans.Activate(ctx, s.Draft, s.Options...)
		}),
		"treatment_plans.in_office_checkout": single(func(s *Scene) (*treatmentplans.Checkout, error) {
			return s.Client.TreatmentPlans.InOfficeCheckout(ctx, s.Plan, s.Options...)
		}),

		"metadata.list": func(_ context.Context, s *Scene) (any, error) {
			return s.Client.Clinic.Metadata.List(ctx, clinic.MetadataListOptions{ID: "ehr-1", Type: clinic.MetadataPatient, Paging: page}, s.Options...)
		},

		"events.get": single(func(s *Scene) (*events.Event, error) {
			return s.Client.Events.Get(ctx, s.Event, s.Options...)
		}),
		"events.list_clinic_keys":     group(func(s *Scene) events.Group { return s.Client.Events.ClinicKeys }, events.ClinicKeyActivated),
		"events.list_patients":        group(func(s *Scene) events.Group { return s.Client.Events.Patients }, events.PatientCreated),
		"events.list_treatment_plans": group(func(s *Scene) events.Group { return s.Client.Events.TreatmentPlans }, events.TreatmentPlanCreated),
		"events.list_orders":          group(func(s *Scene) events.Group { return s.Client.Events.Orders }, events.OrderPlaced),
		"events.list_products":        group(func(s *Scene) events.Group { return s.Client.Events.Products }, events.ProductUpdated),
		"webhook_deliveries.list": func(_ context.Context, s *Scene) (any, error) {
			return s.Client.Events.Deliveries.List(ctx, events.DeliveryListOptions{
				AttemptedAt: dispensary.DateBefore(dispensary.Date{Year: 2099, Month: 1, Day: 1}), EventID: s.Event, Outcome: events.Undelivered,
				SortBy: events.DeliveriesByAttempt, Order: dispensary.Descending, Paging: page,
			}, s.Options...)
		},
	}
}

func group(of func(*Scene) events.Group, kind events.Type) Call {
	return func(ctx context.Context, s *Scene) (any, error) {
		return of(s).List(ctx, events.ListOptions{
			CreatedAt: dispensary.DateRange(dispensary.Date{Year: 2020, Month: 1, Day: 1}, dispensary.Date{Year: 2099, Month: 1, Day: 1}),
			Type:      kind, SortBy: events.ByCreatedAt, Order: dispensary.Descending, Paging: dispensary.Paging{PageSize: 2},
		}, s.Options...)
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

// Connect walks a user through the authorization page and exchanges the code.
func Connect(t testing.TB, s *Scene) (oauth.Token, error) {
	t.Helper()
	client, state := oauthThrough(t, s.Platform, s.HTTP), oauth.NewState()
	address, err := client.AuthorizeURL(state)
	must(t, err)
	back, err := s.Platform.Approve(address, s.Platform.Users()[0])
	must(t, err)
	code, err := oauth.ParseCallback(back.Query(), state)
	must(t, err)
	return client.Exchange(t.Context(), code, s.Options...)
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
