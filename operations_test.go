package dispensary_test

import (
	"context"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/operation"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/treatmentplans"
)

// scene is a platform with one of everything, and a client for it.
type scene struct {
	platform *dispensarytest.Server
	client   *dispensary.Client
	options  []dispensary.RequestOption

	patient, practitioner, staff, order, plan, draft, event string
	product, variant, brand, allergen, ingredient           string
	supplementType, certification, practitionerType         string
	category, protocol                                      string
}

// newScene learns the ids of the platform's world through the API itself.
func newScene(t testing.TB, options ...dispensary.Option) *scene {
	t.Helper()
	s := &scene{platform: dispensarytest.New(t)}
	s.client = s.platform.Client(dispensarytest.User{}, options...)
	ctx := t.Context()
	p := s.platform.Platform()
	s.patient, s.practitioner = p.Patients()[0].ID, p.Practitioners()[0].ID
	product := first(t, s.client.Catalog.Products.All(ctx, catalog.ProductListOptions{}))
	s.product, s.variant, s.brand = product.ID, product.PrimaryVariant.ID, product.Brand.ID
	s.staff = first(t, s.client.Clinic.Staff.All(ctx, clinic.StaffListOptions{})).ID
	s.allergen = first(t, s.client.Catalog.Allergens.All(ctx, catalog.AllergenListOptions{})).ID
	s.ingredient = first(t, s.client.Catalog.Ingredients.All(ctx, catalog.IngredientListOptions{})).ID
	s.supplementType = first(t, s.client.Catalog.SupplementTypes.All(ctx, catalog.SupplementTypeListOptions{})).ID
	s.certification = first(t, s.client.Catalog.ThirdPartyCertifications.All(ctx, catalog.ThirdPartyCertificationListOptions{})).ID
	s.practitionerType = first(t, s.client.Catalog.PractitionerTypes.All(ctx, catalog.PractitionerTypeListOptions{})).ID
	s.category = first(t, s.client.Clinic.Categories.All(ctx, clinic.CategoryListOptions{})).ID
	s.protocol = first(t, s.client.TreatmentPlans.Protocols.All(ctx, s.practitioner, treatmentplans.ProtocolListOptions{})).ID
	s.plan, s.draft = s.newPlan(t, treatmentplans.Active), s.newPlan(t, treatmentplans.Draft)
	order, event, err := p.PlaceOrder(s.patient, dispensarytest.NewOrder{PlanID: s.plan})
	require.NoError(t, err)
	s.order, s.event = order.ID, event.ID
	return s
}

func (s *scene) newPlan(t testing.TB, state treatmentplans.State) string {
	t.Helper()
	plan, err := s.client.TreatmentPlans.Create(t.Context(), s.patient, treatmentplans.New{
		PractitionerID: s.practitioner, State: state, Recommendations: s.recommendations(),
	})
	require.NoError(t, err)
	return plan.ID
}

func (s *scene) recommendations() []treatmentplans.Recommendation {
	return []treatmentplans.Recommendation{{
		VariantID: s.variant, UnitsToPurchase: 1, Refill: true,
		Dosage: treatmentplans.Dosage{Amount: "1-2", Frequency: treatmentplans.TwicePerDay, Duration: "30", Format: treatmentplans.Capsule},
	}}
}

// call makes one call of an operation.
type call func(ctx context.Context, s *scene) (any, error)

// single wraps a method that takes an id.
func single[T any](get func(s *scene) (*T, error)) call {
	return func(_ context.Context, s *scene) (any, error) { return get(s) }
}

// calls has one call for every operation, by its name.
func calls(t testing.TB) map[string]call {
	ctx := t.Context()
	page := dispensary.Paging{PageSize: 2}
	return map[string]call{
		"oauth.authorize": func(_ context.Context, s *scene) (any, error) {
			client := newOAuth(t, s.platform)
			address, err := client.AuthorizeURL("state")
			if err != nil {
				return nil, err
			}
			return s.platform.Approve(address, s.platform.Users()[0])
		},
		"oauth.token": func(_ context.Context, s *scene) (any, error) { return connect(t, s) },
		"oauth.revoke": func(_ context.Context, s *scene) (any, error) {
			token, err := connect(t, s)
			if err != nil {
				return nil, err
			}
			return nil, newOAuth(t, s.platform).Revoke(ctx, token, s.options...)
		},

		"dynamic_links.get": single(func(s *scene) (*treatmentplans.DynamicLink, error) {
			return s.client.TreatmentPlans.DynamicLinks.Get(ctx, s.draft, s.options...)
		}),
		"dynamic_links.new": func(_ context.Context, s *scene) (any, error) {
			return s.client.TreatmentPlans.DynamicLinks.New(ctx, s.options...)
		},
		"dynamic_links.create": single(func(s *scene) (*treatmentplans.DynamicLink, error) {
			return s.client.TreatmentPlans.DynamicLinks.Create(ctx, treatmentplans.NewLink{
				PractitionerID: s.practitioner,
				Patient: &treatmentplans.LinkPatient{
					Email: "link@example.com", FirstName: "Lin", LastName: "Example", Gender: clinic.X,
					DateOfBirth: dispensary.Date{Year: 1980, Month: 2, Day: 29}, MobileNumber: "+15555550155",
					Discount: 5, SendWelcomeEmail: dispensary.Set(false),
				},
			}, s.options...)
		}),

		"allergens.list": func(_ context.Context, s *scene) (any, error) {
			return s.client.Catalog.Allergens.List(ctx, catalog.AllergenListOptions{Paging: page}, s.options...)
		},
		"allergens.get": single(func(s *scene) (*catalog.Allergen, error) {
			return s.client.Catalog.Allergens.Get(ctx, s.allergen, s.options...)
		}),
		"brands.list": func(_ context.Context, s *scene) (any, error) {
			return s.client.Catalog.Brands.List(ctx, catalog.BrandListOptions{Available: true, ClinicPermitted: true, Paging: page}, s.options...)
		},
		"brands.get": single(func(s *scene) (*catalog.Brand, error) {
			return s.client.Catalog.Brands.Get(ctx, s.brand, s.options...)
		}),
		"ingredients.list": func(_ context.Context, s *scene) (any, error) {
			return s.client.Catalog.Ingredients.List(ctx, catalog.IngredientListOptions{Paging: page}, s.options...)
		},
		"ingredients.get": single(func(s *scene) (*catalog.Ingredient, error) {
			return s.client.Catalog.Ingredients.Get(ctx, s.ingredient, s.options...)
		}),
		"practitioner_types.list": func(_ context.Context, s *scene) (any, error) {
			return s.client.Catalog.PractitionerTypes.List(ctx, catalog.PractitionerTypeListOptions{Paging: page}, s.options...)
		},
		"products.list": func(_ context.Context, s *scene) (any, error) {
			return s.client.Catalog.Products.List(ctx, catalog.ProductListOptions{Paging: page}, s.options...)
		},
		"products.get": single(func(s *scene) (*catalog.Product, error) {
			return s.client.Catalog.Products.Get(ctx, s.product, catalog.ProductQuery{PractitionerID: s.practitioner}, s.options...)
		}),
		"products.search": func(_ context.Context, s *scene) (any, error) {
			return s.client.Catalog.Products.Search(ctx, catalog.ProductSearch{
				Query: "a", BrandID: s.brand, AllergenIDs: []string{s.allergen}, IngredientIDs: []string{s.ingredient},
				SupplementTypeIDs: []string{s.supplementType}, ThirdPartyCertificationIDs: []string{s.certification}, Paging: page,
			}, s.options...)
		},
		"products.similar": func(_ context.Context, s *scene) (any, error) {
			return s.client.Catalog.Products.Similar(ctx, s.product, catalog.ProductListOptions{Paging: page}, s.options...)
		},
		"supplement_types.list": func(_ context.Context, s *scene) (any, error) {
			return s.client.Catalog.SupplementTypes.List(ctx, catalog.SupplementTypeListOptions{Paging: page}, s.options...)
		},
		"supplement_types.get": single(func(s *scene) (*catalog.SupplementType, error) {
			return s.client.Catalog.SupplementTypes.Get(ctx, s.supplementType, s.options...)
		}),
		"third_party_certifications.list": func(_ context.Context, s *scene) (any, error) {
			return s.client.Catalog.ThirdPartyCertifications.List(ctx, catalog.ThirdPartyCertificationListOptions{Paging: page}, s.options...)
		},
		"third_party_certifications.get": single(func(s *scene) (*catalog.ThirdPartyCertification, error) {
			return s.client.Catalog.ThirdPartyCertifications.Get(ctx, s.certification, s.options...)
		}),
		"variants.get": single(func(s *scene) (*catalog.Variant, error) {
			return s.client.Catalog.Variants.Get(ctx, s.variant, s.options...)
		}),

		"clinic.get": single(func(s *scene) (*clinic.Clinic, error) { return s.client.Clinic.Get(ctx, s.options...) }),
		"addresses.list": func(_ context.Context, s *scene) (any, error) {
			return s.client.Clinic.Addresses.List(ctx, s.patient, clinic.AddressListOptions{Paging: page}, s.options...)
		},
		"categories.list": func(_ context.Context, s *scene) (any, error) {
			return s.client.Clinic.Categories.List(ctx, clinic.CategoryListOptions{Paging: page}, s.options...)
		},
		"categories.get": single(func(s *scene) (*clinic.Category, error) {
			return s.client.Clinic.Categories.Get(ctx, s.category, s.options...)
		}),
		"categories.products": func(_ context.Context, s *scene) (any, error) {
			return s.client.Clinic.Categories.Products(ctx, s.category, clinic.CategoryListOptions{Paging: page}, s.options...)
		},
		"orders.list_for_patient": func(_ context.Context, s *scene) (any, error) {
			return s.client.Clinic.Orders.ListOf(ctx, s.patient, clinic.PatientOrderListOptions{Paging: page}, s.options...)
		},
		"orders.get": single(func(s *scene) (*clinic.Order, error) {
			return s.client.Clinic.Orders.Get(ctx, s.order, s.options...)
		}),
		"orders.list": func(_ context.Context, s *scene) (any, error) {
			return s.client.Clinic.Orders.List(ctx, clinic.OrderListOptions{
				PatientID: s.patient, TreatmentPlanID: s.plan, CompletedAt: dispensary.After(dispensary.Date{Year: 2020, Month: 1, Day: 1}),
				SortBy: clinic.OrdersByCompletion, Order: dispensary.Descending, Paging: page,
			}, s.options...)
		},

		"patients.list": func(_ context.Context, s *scene) (any, error) {
			return s.client.Clinic.Patients.List(ctx, clinic.PatientListOptions{Paging: page}, s.options...)
		},
		"patients.get": single(func(s *scene) (*clinic.Patient, error) {
			return s.client.Clinic.Patients.Get(ctx, s.patient, s.options...)
		}),
		"patients.create": single(func(s *scene) (*clinic.Patient, error) {
			return s.client.Clinic.Patients.Create(ctx, clinic.NewPatient{
				FirstName: "New", LastName: "Example", Email: "new@example.com", Gender: clinic.Female,
				DateOfBirth: dispensary.Date{Year: 1980, Month: 2, Day: 29}, MobileNumber: "+15555550156", Discount: 7.5,
				SendWelcomeEmail: dispensary.Set(false), Metadata: clinic.Metadata{ID: "ehr-1"},
			}, s.options...)
		}),
		"patients.update": single(func(s *scene) (*clinic.Patient, error) {
			return s.client.Clinic.Patients.Update(ctx, s.patient, clinic.PatientUpdate{
				Email: dispensary.Set("changed@example.com"), FirstName: dispensary.Set("Changed"), LastName: dispensary.Set("Example"),
				DateOfBirth: dispensary.Clear[dispensary.Date](), Gender: dispensary.Set(clinic.X), MobileNumber: dispensary.Set("+15555550157"),
				Discount: dispensary.Set[dispensary.Percent](3), Metadata: dispensary.Set(clinic.Metadata{ID: "ehr-2"}),
			}, s.options...)
		}),
		"patients.search": func(_ context.Context, s *scene) (any, error) {
			return s.client.Clinic.Patients.Search(ctx, clinic.PatientSearch{Query: "example", Paging: page}, s.options...)
		},
		"practitioners.list": func(_ context.Context, s *scene) (any, error) {
			return s.client.Clinic.Practitioners.List(ctx, clinic.PractitionerListOptions{Paging: page}, s.options...)
		},
		"practitioners.get": single(func(s *scene) (*clinic.Practitioner, error) {
			return s.client.Clinic.Practitioners.Get(ctx, s.practitioner, s.options...)
		}),
		"practitioners.create": single(func(s *scene) (*clinic.Practitioner, error) {
			return s.client.Clinic.Practitioners.Create(ctx, clinic.NewPractitioner{
				PractitionerTypeID: s.practitionerType, Email: "doctor@example.com", FirstName: "New", LastName: "Doctor",
				Metadata: clinic.Metadata{ID: "ehr-3"},
			}, s.options...)
		}),
		"practitioners.update": single(func(s *scene) (*clinic.Practitioner, error) {
			return s.client.Clinic.Practitioners.Update(ctx, s.practitioner, clinic.PractitionerUpdate{
				PractitionerTypeID: dispensary.Set(s.practitionerType), FirstName: dispensary.Set("Changed"), LastName: dispensary.Set("Doctor"),
				Email: dispensary.Set("changed.doctor@example.com"), Metadata: dispensary.Set(clinic.Metadata{ID: "ehr-4"}),
			}, s.options...)
		}),
		"staff.list": func(_ context.Context, s *scene) (any, error) {
			return s.client.Clinic.Staff.List(ctx, clinic.StaffListOptions{Paging: page}, s.options...)
		},
		"staff.get": single(func(s *scene) (*clinic.Staff, error) {
			return s.client.Clinic.Staff.Get(ctx, s.staff, s.options...)
		}),
		"staff.create": single(func(s *scene) (*clinic.Staff, error) {
			return s.client.Clinic.Staff.Create(ctx, clinic.NewStaff{
				Email: "desk@example.com", FirstName: "New", LastName: "Desk", Metadata: clinic.Metadata{ID: "ehr-5"},
			}, s.options...)
		}),
		"staff.update": single(func(s *scene) (*clinic.Staff, error) {
			return s.client.Clinic.Staff.Update(ctx, s.staff, clinic.StaffUpdate{
				FirstName: dispensary.Set("Changed"), LastName: dispensary.Set("Desk"), Email: dispensary.Set("changed.desk@example.com"),
				Metadata: dispensary.Set(clinic.Metadata{ID: "ehr-6"}),
			}, s.options...)
		}),

		"protocols.get": single(func(s *scene) (*treatmentplans.Protocol, error) {
			return s.client.TreatmentPlans.Protocols.Get(ctx, s.protocol, s.options...)
		}),
		"protocols.list": func(_ context.Context, s *scene) (any, error) {
			return s.client.TreatmentPlans.Protocols.List(ctx, s.practitioner, treatmentplans.ProtocolListOptions{
				CurrentState: treatmentplans.Active, OwnershipType: treatmentplans.Owned,
				SortBy: treatmentplans.ProtocolsByName, Order: dispensary.Ascending, Paging: page,
			}, s.options...)
		},
		"templates.get": func(_ context.Context, s *scene) (any, error) {
			//lint:ignore SA1019 templates are deprecated, and still there
			return s.client.TreatmentPlans.Templates.Get(ctx, s.protocol, s.options...)
		},
		"templates.list": func(_ context.Context, s *scene) (any, error) {
			//lint:ignore SA1019 templates are deprecated, and still there
			return s.client.TreatmentPlans.Templates.List(ctx, s.practitioner, treatmentplans.TemplateListOptions{Paging: page}, s.options...)
		},

		"treatment_plans.list": func(_ context.Context, s *scene) (any, error) {
			return s.client.TreatmentPlans.List(ctx, s.patient, treatmentplans.ListOptions{
				SortBy: treatmentplans.ByUpdatedAt, Order: dispensary.Descending, Paging: page,
			}, s.options...)
		},
		"treatment_plans.create": single(func(s *scene) (*treatmentplans.Plan, error) {
			return s.client.TreatmentPlans.Create(ctx, s.patient, treatmentplans.New{
				PractitionerID: s.practitioner, Recommendations: s.recommendations(), PersonalMessage: "Take care",
				State: treatmentplans.Draft, Metadata: clinic.Metadata{ID: "ehr-7"},
			}, s.options...)
		}),
		"treatment_plans.get": single(func(s *scene) (*treatmentplans.Plan, error) {
			return s.client.TreatmentPlans.Get(ctx, s.plan, s.options...)
		}),
		"treatment_plans.update": single(func(s *scene) (*treatmentplans.Plan, error) {
			return s.client.TreatmentPlans.Update(ctx, s.draft, treatmentplans.Update{
				Recommendations: s.recommendations(), PersonalMessage: dispensary.Set("Changed"),
				Metadata: dispensary.Set(clinic.Metadata{ID: "ehr-8"}),
			}, s.options...)
		}),
		"treatment_plans.cancel": single(func(s *scene) (*treatmentplans.Plan, error) {
			return s.client.TreatmentPlans.Cancel(ctx, s.plan, s.options...)
		}),
		"treatment_plans.activate": single(func(s *scene) (*treatmentplans.Plan, error) {
			return s.client.TreatmentPlans.Activate(ctx, s.draft, s.options...)
		}),
		"treatment_plans.in_office_checkout": single(func(s *scene) (*treatmentplans.Checkout, error) {
			return s.client.TreatmentPlans.InOfficeCheckout(ctx, s.plan, s.options...)
		}),

		"metadata.list": func(_ context.Context, s *scene) (any, error) {
			return s.client.Clinic.Metadata.List(ctx, clinic.MetadataListOptions{ID: "ehr-1", Type: clinic.MetadataPatient, Paging: page}, s.options...)
		},

		"events.get": single(func(s *scene) (*events.Event, error) {
			return s.client.Events.Get(ctx, s.event, s.options...)
		}),
		"events.list_clinic_keys":     group(func(s *scene) events.Group { return s.client.Events.ClinicKeys }, events.ClinicKeyActivated),
		"events.list_patients":        group(func(s *scene) events.Group { return s.client.Events.Patients }, events.PatientCreated),
		"events.list_treatment_plans": group(func(s *scene) events.Group { return s.client.Events.TreatmentPlans }, events.TreatmentPlanCreated),
		"events.list_orders":          group(func(s *scene) events.Group { return s.client.Events.Orders }, events.OrderPlaced),
		"events.list_products":        group(func(s *scene) events.Group { return s.client.Events.Products }, events.ProductUpdated),
		"webhook_deliveries.list": func(_ context.Context, s *scene) (any, error) {
			return s.client.Events.Deliveries.List(ctx, events.DeliveryListOptions{
				AttemptedAt: dispensary.Before(dispensary.Date{Year: 2099, Month: 1, Day: 1}), EventID: s.event, Outcome: events.Undelivered,
				SortBy: events.DeliveriesByAttempt, Order: dispensary.Descending, Paging: page,
			}, s.options...)
		},
	}
}

func group(of func(*scene) events.Group, kind events.Type) call {
	return func(ctx context.Context, s *scene) (any, error) {
		return of(s).List(ctx, events.ListOptions{
			CreatedAt: dispensary.Between(dispensary.Date{Year: 2020, Month: 1, Day: 1}, dispensary.Date{Year: 2099, Month: 1, Day: 1}),
			Type:      kind, SortBy: events.ByCreatedAt, Order: dispensary.Descending, Paging: dispensary.Paging{PageSize: 2},
		}, s.options...)
	}
}

func newOAuth(t testing.TB, platform *dispensarytest.Server) *oauth.Client {
	t.Helper()
	app := platform.Application()
	client, err := oauth.New(oauth.Config{
		Site: platform.Site(), HTTPClient: platform.HTTPClient(),
		ClientID: app.ClientID, ClientSecret: dispensary.Secret(app.ClientSecret), RedirectURL: app.RedirectURI,
	})
	require.NoError(t, err)
	return client
}

// connect walks a user through the authorization page and exchanges the code.
func connect(t testing.TB, s *scene) (oauth.Token, error) {
	t.Helper()
	client, state := newOAuth(t, s.platform), oauth.NewState()
	address, err := client.AuthorizeURL(state)
	require.NoError(t, err)
	back, err := s.platform.Approve(address, s.platform.Users()[0])
	require.NoError(t, err)
	code, err := oauth.ParseCallback(back.Query(), state)
	require.NoError(t, err)
	return client.Exchange(t.Context(), code, s.options...)
}

func first[T any](t testing.TB, items func(func(T, error) bool)) T {
	t.Helper()
	for item, err := range items {
		require.NoError(t, err)
		return item
	}
	t.Fatalf("the list is empty: %T", *new(T))
	panic("unreachable")
}

// The client has a call for every row of the table, and none besides.
func TestEveryOperationHasACall(t *testing.T) {
	t.Parallel()
	var rows []string
	for _, op := range operation.All() {
		rows = append(rows, op.Name)
	}
	assert.Len(t, rows, 61+1, "61 endpoints and the authorization page")
	assert.ElementsMatch(t, rows, slices.Collect(maps.Keys(calls(t))))
}

// Every call reaches the operation it is named for, with nothing the platform does
// not know, and its answer decodes.
func TestEveryCallReachesItsOperation(t *testing.T) {
	t.Parallel()
	for name, make := range calls(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.platform.Journal().Reset()
			var response dispensary.Response
			s.options = []dispensary.RequestOption{dispensary.CaptureResponse(&response)}
			value, err := make(t.Context(), s)
			require.NoError(t, err)
			s.platform.Journal().CheckNoUnexpected(t)
			request := s.platform.Journal().CheckRequested(t, name)
			if name == "oauth.authorize" {
				return // a page for a browser, not a call
			}
			assert.Equal(t, request.ID, response.RequestID)
			assert.Equal(t, request.Status, response.StatusCode)
			if name != "oauth.revoke" {
				assert.NotNil(t, value)
			}
		})
	}
}
