package dispensarytest

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/operations"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// exemplar is a request that succeeds.
type exemplar struct {
	op     operations.Operation
	path   string
	body   any
	status int
}

// exemplars returns one request for every operation except the token endpoint and the page.
// Each request succeeds on a fresh platform, some only once.
func exemplars(t *testing.T, b *browser) map[string]exemplar {
	t.Helper()
	patient, practitioner, plan, product := b.fake.Patients.All()[0].ID, b.fake.Practitioners.All()[0].ID, b.fake.Plans.All()[0].ID, b.fake.Products.All()[2].ID
	draft := b.send("POST", b.plansOf(patient), b.draft(nil)).ok(201, "treatment_plan", "id").(string)
	_, event, err := b.fake.Patients.Create(model.PatientCreate{Email: "event@example.org"})
	require.NoError(t, err)
	w := b.fake.store.World
	ids := map[string]string{
		"allergens.get": w.Allergens.Rows[0].ID, "ingredients.get": w.Ingredients.Rows[0].ID, "supplement_types.get": w.SupplementTypes.Rows[0].ID,
		"third_party_certifications.get": w.Certifications.Rows[0].ID, "brands.get": w.Brands.Rows[0].ID, "products.get": product, "products.similar": product,
		"variants.get": w.Variants.Rows[0].ID, "categories.get": w.Categories.Rows[0].ID, "categories.products": w.Categories.Rows[0].ID,
		"addresses.list": patient, "orders.list_for_patient": patient, "orders.get": b.fake.Orders.All()[0].ID, "patients.get": patient, "patients.update": patient,
		"practitioners.get": practitioner, "practitioners.update": practitioner, "staff.get": w.Staff.Rows[0].ID, "staff.update": w.Staff.Rows[0].ID,
		"protocols.get": w.Protocols.Rows[0].ID, "protocols.list": practitioner, "templates.get": w.Protocols.Rows[0].ID, "templates.list": practitioner,
		"treatment_plans.list": patient, "treatment_plans.create": patient, "treatment_plans.get": plan, "treatment_plans.update": plan,
		"treatment_plans.cancel": plan, "treatment_plans.activate": draft, "treatment_plans.in_office_checkout": plan,
		"dynamic_links.get": plan, "events.get": event.ID,
	}
	person := map[string]any{"email": "exemplar@example.org", "first_name": "E", "last_name": "X"}
	bodies := map[string]any{
		"patients.create": someone(), "patients.update": map[string]any{"first_name": "E"},
		"practitioners.create": merged(person, "practitioner_type_id", w.PractitionerTypes.Rows[0].ID), "practitioners.update": map[string]any{"last_name": "X"},
		"staff.create": merged(person, "email", "staff.exemplar@example.org"), "staff.update": map[string]any{"last_name": "X"},
		"treatment_plans.create": b.draft(nil), "treatment_plans.update": map[string]any{"recommendations": b.draft(nil)["recommendations"]},
		"dynamic_links.create": map[string]any{"treatment_plan": map[string]any{"practitioner_id": practitioner}, "patient": map[string]any{"email": "link@example.org"}},
	}
	queries := map[string]string{"metadata.list": "?id=ehr-1001"}
	found := make(map[string]exemplar)
	for _, op := range operations.All() {
		if op.Open {
			continue
		}
		path, parametrized := routeWith(op.Route, ids[op.ID])
		require.False(t, parametrized && ids[op.ID] == "", op.ID)
		e := exemplar{op: op, path: path + queries[op.ID], body: bodies[op.ID], status: http.StatusOK}
		switch op.ID {
		case "patients.create", "practitioners.create", "staff.create", "treatment_plans.create", "treatment_plans.in_office_checkout":
			e.status = http.StatusCreated
		}
		found[op.ID] = e
	}
	return found
}

func merged(body map[string]any, name string, value any) map[string]any {
	changed := map[string]any{}
	maps.Copy(changed, body)
	changed[name] = value
	return changed
}

// inOrder sorts exemplars so that requests that use up a plan come last.
func inOrder(all map[string]exemplar) []exemplar {
	return slices.SortedFunc(maps.Values(all), func(a, b exemplar) int {
		rank := func(e exemplar) int { return slices.Index([]string{"treatment_plans.cancel"}, e.op.ID) }
		if d := rank(a) - rank(b); d != 0 {
			return d
		}
		return strings.Compare(a.op.ID, b.op.ID)
	})
}

// only returns the scopes that one operation requires by the API or by an assumption.
func only(op operations.Operation) []string {
	switch op.ID {
	case "treatment_plans.create":
		return []string{op.Scope, operations.ScopePatientsRead}
	case "dynamic_links.create":
		return []string{op.Scope, operations.ScopePatientsEdit}
	case "metadata.list", "events.get":
		return []string{operations.ScopePatientsRead}
	}
	return []string{op.Scope}
}

func TestOperationsRequireTheirScopes(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory())
	all := exemplars(t, b)
	before := bytesOf(b.fake.store.World)
	for _, e := range inOrder(all) {
		for _, missing := range only(e.op) {
			if e.op.ID == "metadata.list" {
				e.path += "&type=patient"
			}
			rest := slices.DeleteFunc(operations.AllScopes(), func(s string) bool { return s == missing })
			got := b.with(rest...).send(e.op.Method, e.path, e.body)
			got.refused(http.StatusForbidden, missing)
			assert.Equal(t, []string{"error"}, keysOf(got.body), e.op.ID)
			last, _ := lastRequest(b.fake)
			assert.False(t, last.Granted, e.op.ID)
			assert.Contains(t, last.Scopes, missing)
		}
	}
	assert.Equal(t, before, bytesOf(b.fake.store.World), "rejections change nothing")
}

// Group scopes permit every operation of their members, and no other.
func TestGroupScopesGrantMembers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ group, prefix string }{{"clinic", "clinic:"}, {"patients", "patients:"}} {
		b := start(t, WithInMemory())
		narrow := b.with(c.group)
		for _, e := range inOrder(exemplars(t, b)) {
			covered := !slices.ContainsFunc(only(e.op), func(s string) bool { return !strings.HasPrefix(s, c.prefix) })
			got := narrow.send(e.op.Method, e.path, e.body)
			switch {
			case covered:
				assert.Equal(t, e.status, got.status, "%s %s", c.group, e.op.ID)
			case e.op.ID != "metadata.list":
				assert.Equal(t, http.StatusForbidden, got.status, "%s %s", c.group, e.op.ID)
			}
		}
		assert.Panics(t, func() { b.with(c.prefix + "raed") })
	}
}

// Every other method on a path responds with 404, and the journal lists the path's methods.
func TestOtherMethodsAreUnknown(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory())
	for _, e := range exemplars(t, b) {
		known := make(map[string]bool)
		for _, op := range operations.All() {
			known[op.Method] = known[op.Method] || op.Route == e.op.Route
		}
		for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
			if known[method] {
				continue
			}
			b.send(method, e.path, nil).refused(http.StatusNotFound, `{"status":404,"error":"Not Found"}`)
			last, _ := lastRequest(b.fake)
			assert.Empty(t, last.Operation)
			assert.NotEmpty(t, last.Near, e.op.ID)
		}
	}
}
