package dispensarytest

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// FuzzAnyRequest sends anything to any route: never a panic, never a 5xx, and
// no change of the world with a refusal.
func FuzzAnyRequest(f *testing.F) {
	bodies := []string{"", "{}", `{"email":"a@example.org","first_name":1,"metadata":[]}`, `{"recommendations":[{"variant_id":{}}],"practitioner_id":null}`, `{"treatment_plan":{},"patient":{"email":0}}`}
	for i, op := range operations() {
		f.Add(op.method, op.route, "page[size]=1&sort_by=x&created_at=%3C", bodies[i%len(bodies)])
	}
	fake := New(f)
	token := fake.IssueToken(User{}).AccessToken
	patient, product := fake.Platform().Patients()[0].ID, fake.Platform().Plans()[0].ID
	f.Fuzz(func(t *testing.T, method, path, query, body string) {
		path = strings.NewReplacer("{patient_id}", patient, "{id}", product).Replace(path)
		req, err := http.NewRequest(method, fake.BaseURL()+path, strings.NewReader(body))
		if err != nil {
			t.Skip()
		}
		req.URL.RawQuery = query
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Content-Type", "application/json")
		before := rows(fake.world)
		w := httptest.NewRecorder()
		fake.Handler().ServeHTTP(w, req)
		if w.Code >= 500 || w.Header().Get("X-Request-Id") == "" {
			t.Fatalf("%s %s?%s %q → %d %s", method, path, query, body, w.Code, w.Body)
		}
		if w.Code >= 400 && !slices.Equal(before, rows(fake.world)) {
			t.Fatalf("%s %s %q → %d changed the world", method, path, body, w.Code)
		}
	})
}

// rows are pointers to everything that requests can change.
func rows(w *world) (all []any) {
	for p := range w.patients.all() {
		all = append(all, p)
	}
	for p := range w.practitioners.all() {
		all = append(all, p)
	}
	for m := range w.staff.all() {
		all = append(all, m)
	}
	for p := range w.plans.all() {
		all = append(all, p)
	}
	for c := range w.carts.all() {
		all = append(all, c)
	}
	return all
}
