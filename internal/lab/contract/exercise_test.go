package contract_test

import (
	"maps"
	"net/url"
	"slices"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// exercise contains a successful call of an operation, and wrong calls that do not follow from the
// document.
type exercise struct {
	// request returns the successful call without its token.
	request func(s *fixture) request
	status  int // 0 means 200

	// scopes replaces the scopes of the document if they depend on the request.
	scopes []string

	// rejections contains calls that fail because of rules outside the document.
	rejections []rejection
}

type rejection struct {
	name   string
	status int
	change func(s *fixture, r *request) // changes the successful request
}

// exercises has a row for each operation, by name.
var exercises = merged(catalogExercises, clinicExercises, careExercises, linkExercises, eventExercises, oauthExercises)

func merged(sections ...map[string]exercise) map[string]exercise {
	all := map[string]exercise{}
	for _, section := range sections {
		for name, row := range section {
			if _, twice := all[name]; twice {
				panic(name + " is exercised twice")
			}
			all[name] = row
		}
	}
	return all
}

func exercised() []string { return slices.Sorted(maps.Keys(exercises)) }

// plainly returns a request without parameters.
func plainly(*fixture) request { return request{} }

// firstOf returns a request for the first item of a list.
func firstOf(list string, path ...func(*fixture) string) func(*fixture) request {
	return func(s *fixture) request {
		var values []string
		for _, value := range path {
			values = append(values, value(s))
		}
		return request{path: []string{s.first(list, values...)}}
	}
}

// at returns a request with a path value.
func at(value func(*fixture) string) func(*fixture) request {
	return func(s *fixture) request { return request{path: []string{value(s)}} }
}

// having returns a request with a body and path values.
func having(body func(*fixture) map[string]any, path ...func(*fixture) string) func(*fixture) request {
	return func(s *fixture) request {
		r := request{body: body(s)}
		for _, value := range path {
			r.path = append(r.path, value(s))
		}
		return r
	}
}

// field returns a change of one field of the body.
func field(name string, value func(*fixture) any) func(*fixture, *request) {
	return func(s *fixture, r *request) {
		body := maps.Clone(r.body.(map[string]any))
		body[name] = value(s)
		r.body = body
	}
}

func fixed(value any) func(*fixture) any { return func(*fixture) any { return value } }

func query(pairs ...string) url.Values {
	values := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		values.Add(pairs[i], pairs[i+1])
	}
	return values
}

var catalogExercises = map[string]exercise{
	"allergens.list":                  {request: plainly},
	"allergens.get":                   {request: firstOf("allergens.list")},
	"brands.list":                     {request: plainly},
	"brands.get":                      {request: firstOf("brands.list")},
	"ingredients.list":                {request: plainly},
	"ingredients.get":                 {request: firstOf("ingredients.list")},
	"practitioner_types.list":         {request: plainly},
	"products.list":                   {request: plainly},
	"products.search":                 {request: func(*fixture) request { return request{query: query("query", "magnesium")} }},
	"products.similar":                {request: at((*fixture).product)},
	"supplement_types.list":           {request: plainly},
	"supplement_types.get":            {request: firstOf("supplement_types.list")},
	"third_party_certifications.list": {request: plainly},
	"third_party_certifications.get":  {request: firstOf("third_party_certifications.list")},
	"variants.get":                    {request: at((*fixture).variant)},
	"products.get": {
		request: at((*fixture).product),
		rejections: []rejection{{"another clinic's practitioner", 422, func(_ *fixture, r *request) {
			r.query = query("practitioner_id", "nobody")
		}}},
	},
}

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
		rejections: []rejection{
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
		scopes:     []string{"patients:read"},
		rejections: []rejection{{"no identifier", 422, func(_ *fixture, r *request) { r.query = query("type", "patient") }}},
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

func draft(s *fixture) string     { return s.plan("draft") }
func active(s *fixture) string    { return s.plan("active") }
func cancelled(s *fixture) string { return s.cancelled() }

func activePlan(s *fixture) map[string]any { return s.newPlan("active") }

func planChange(s *fixture) map[string]any {
	body := s.newPlan(nil)
	delete(body, "practitioner_id")
	delete(body, "state")
	return body
}

// onPlan changes the request to another plan.
func onPlan(plan func(*fixture) string) func(*fixture, *request) {
	return func(s *fixture, r *request) { r.path = []string{plan(s)} }
}

var careExercises = map[string]exercise{
	"protocols.list": {request: at((*fixture).practitioner)},
	"protocols.get":  {request: firstOf("protocols.list", (*fixture).practitioner)},
	"templates.list": {request: at((*fixture).practitioner)},
	"templates.get":  {request: firstOf("templates.list", (*fixture).practitioner)},

	"treatment_plans.list":   {request: at((*fixture).patient)},
	"treatment_plans.get":    {request: at(active)},
	"treatment_plans.create": {request: having(activePlan, (*fixture).patient), status: 201},
	"treatment_plans.update": {
		request:    having(planChange, active),
		rejections: []rejection{{"canceled plan", 422, onPlan(cancelled)}},
	},
	"treatment_plans.cancel": {
		request: at(active),
		rejections: []rejection{
			{"draft", 422, onPlan(draft)},
			{"canceled plan", 422, onPlan(cancelled)},
		},
	},
	"treatment_plans.activate": {
		request: at(draft),
		rejections: []rejection{
			{"active plan", 422, onPlan(active)},
			{"canceled plan", 422, onPlan(cancelled)},
		},
	},
	"treatment_plans.in_office_checkout": {
		request: at(active), status: 201,
		rejections: []rejection{
			{"draft", 422, onPlan(draft)},
			{"canceled plan", 422, onPlan(cancelled)},
		},
	},
}

// newLink returns the body of a link to a draft for a known patient. The call then needs only the
// stated scope.
func newLink(s *fixture) map[string]any {
	return map[string]any{
		"treatment_plan": map[string]any{"practitioner_id": s.practitioner()},
		"patient":        map[string]any{"email": s.fake.Patients.All()[0].Email},
	}
}

var linkExercises = map[string]exercise{
	"dynamic_links.get": {
		request:    at(active),
		rejections: []rejection{{"canceled plan", 422, onPlan(cancelled)}},
	},
	"dynamic_links.new": {request: plainly},
	"dynamic_links.create": {
		request: having(newLink),
		rejections: []rejection{
			{"unknown practitioner", 422, field("treatment_plan", fixed(map[string]any{"practitioner_id": "nobody"}))},
			{"patient without e-mail address", 422, field("patient", fixed(map[string]any{"first_name": "Nora"}))},
			{"no treatment_plan", 400, func(_ *fixture, r *request) { r.body = map[string]any{} }},
			{"new patient without patients:write", 403, func(s *fixture, r *request) {
				r.token = s.tokenWith("clinic:write")
				field("patient", fixed(map[string]any{"email": "someone.new@example.org"}))(s, r)
			}},
		},
	},
}

func credentials(s *fixture) map[string]any {
	app := s.fake.Application()
	return map[string]any{"client_id": app.ClientID, "client_secret": app.ClientSecret}
}

func refreshGrant(s *fixture) map[string]any {
	body := credentials(s)
	body["grant_type"], body["redirect_uri"] = "refresh_token", s.fake.Application().RedirectURI
	body["refresh_token"] = s.fake.Tokens.Issue(model.User{}).RefreshToken
	return body
}

func revocation(s *fixture) map[string]any {
	body := credentials(s)
	body["token"] = s.fake.Tokens.Issue(model.User{}).AccessToken
	return body
}

func sent(body any) func(*fixture, *request) { return func(_ *fixture, r *request) { r.body = body } }

var oauthExercises = map[string]exercise{
	"oauth.authorize": {
		request: func(s *fixture) request {
			app := s.fake.Application()
			return request{query: query("client_id", app.ClientID, "redirect_uri", app.RedirectURI, "response_type", "code", "state", "s t&te")}
		},
		rejections: []rejection{
			{"unknown client", 404, func(_ *fixture, r *request) { r.query.Set("client_id", "unknown") }},
			{"another address", 404, func(_ *fixture, r *request) { r.query.Set("redirect_uri", "https://example.org/") }},
			{"another response type", 303, func(_ *fixture, r *request) { r.query.Set("response_type", "token") }},
			{"malformed query", 400, func(_ *fixture, r *request) { r.query, r.rawQuery = nil, "state=%zz" }},
		},
	},
	"oauth.token": {
		request: having(refreshGrant),
		rejections: []rejection{
			{"unknown refresh token", 400, field("refresh_token", fixed("unknown"))},
			{"unknown code", 400, func(s *fixture, r *request) {
				field("grant_type", fixed("authorization_code"))(s, r)
				field("code", fixed("unknown"))(s, r)
			}},
			{"unknown grant type", 400, field("grant_type", fixed("password"))},
			{"missing grant type", 400, field("grant_type", fixed(""))},
			{"another address", 400, field("redirect_uri", fixed("https://example.org/"))},
			{"wrong secret", 401, field("client_secret", fixed("wrong"))},
			{"unknown client", 401, field("client_id", fixed("unknown"))},
			{"number instead of text", 400, field("client_id", fixed(7))},
			{"nothing", 400, sent(nil)},
			{"no JSON", 400, sent("grant_type=refresh_token")},
			{"no object", 400, sent("[]")},
			tooLarge,
		},
	},
	"oauth.revoke": {
		request: having(revocation),
		rejections: []rejection{
			{"missing token", 400, field("token", fixed(""))},
			{"wrong secret", 401, field("client_secret", fixed("wrong"))},
			{"nothing", 400, sent(nil)},
			{"no JSON", 400, sent("{")},
			tooLarge,
		},
	},
}
