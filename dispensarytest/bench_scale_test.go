package dispensarytest

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/httpapi"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// manyRows is a clinic with more of everything than most.
var manyRows = model.WorldSize{Patients: 20_000, Products: 20_000, Plans: 20_000, Orders: 100_000}

// bigWorld is made once in a process, for all benchmarks that fork it.
var bigWorld = sync.OnceValues(func() (*Snapshot, error) {
	fake, err := Start(WithInMemory(), WithWorldSize(manyRows))
	if err != nil {
		return nil, err
	}
	defer fake.Close()
	return fake.Snapshot(), nil
})

// BenchmarkScale reads pages of one size from a small and from a large world, in
// turns: what the large one takes as a multiple of the small one is x-small. Medians
// are compared, because other work of the machine falls on either. Target: 2.
func BenchmarkScale(b *testing.B) {
	snap, err := bigWorld()
	if err != nil {
		b.Fatal(err)
	}
	small, large := New(b, WithInMemory()), New(b, WithInMemory(), WithSnapshot(snap))
	for _, q := range []struct{ name, path, query string }{
		{"patients", "/clinic/patients", ""},
		{"patients/last page", "/clinic/patients", "page[number]=last"},
		{"patient search/few", "/clinic/search/patients", "query=jane doe"},
		{"patient search/many", "/clinic/search/patients", "query=a"},
		{"patient search/all", "/clinic/search/patients", "query=@example.org"},
		{"patient search/none", "/clinic/search/patients", "query=zzyzx"},
		{"products", "/catalog/products", ""},
		{"products/last page", "/catalog/products", "page[number]=last"},
		{"product search/all", "/catalog/search/products", ""},
		{"product search/many", "/catalog/search/products", "query=vitamin"},
		{"product search/sku", "/catalog/search/products", "query=LSN-10"},
		{"product search/none", "/catalog/search/products", "query=zzyzx"},
		{"product search/filters", "/catalog/search/products", "query=vitamin&brand_id={brand}&allergen_ids[]={allergen}"},
		{"similar products", "/catalog/products/{product}/similar", ""},
		{"category", "/clinic/categories/{category}", ""},
		{"category products", "/clinic/categories/{category}/products", ""},
		{"orders", "/clinic/orders", ""},
		{"orders/by number, descending", "/clinic/orders", "sort_by=order_number&order_by=DESC"},
		{"orders/by patient", "/clinic/orders", "sort_by=patient_id"},
		{"orders/by plan, descending", "/clinic/orders", "sort_by=treatment_plan_id&order_by=DESC"},
		{"orders/of some days", "/clinic/orders", "completed_at=>2025-12-05"},
		{"orders/of some days, by number", "/clinic/orders", "completed_at=>2025-12-05&sort_by=order_number"},
		{"orders/of a patient", "/clinic/orders", "patient_id={patient}"},
		{"metadata", "/clinic/metadata", "id=ehr-1001"},
		{"clinic", "/clinic", ""},
	} {
		b.Run(q.name, func(b *testing.B) {
			one, other := pager(b, small, q.path, q.query), pager(b, large, q.path, q.query)
			var least, most []time.Duration
			for b.Loop() {
				least, most = append(least, one()), append(most, other())
			}
			slices.Sort(least)
			slices.Sort(most)
			middle := float64(least[len(least)/2])
			b.ReportMetric(middle, "ns/small")
			b.ReportMetric(float64(most[len(most)/2]), "ns/large")
			b.ReportMetric(float64(most[len(most)/2])/middle, "x-small")
		})
	}
}

// pager reads a page, and returns how long that took. A world's placeholders are
// filled in with what it begins with.
func pager(b *testing.B, fake *Server, path, query string) func() time.Duration {
	b.Helper()
	w := fake.store.World
	fill := func(text string) string {
		for name, id := range map[string]string{
			"{patient}": w.Patients.At(0).ID, "{product}": w.Products.At(0).ID, "{category}": w.Categories.At(0).ID,
			"{brand}": w.Brands.At(3).ID, "{allergen}": w.Allergens.At(0).ID,
		} {
			text = strings.ReplaceAll(text, name, id)
		}
		return text
	}
	values, err := url.ParseQuery(fill(query))
	if err != nil {
		b.Fatal(err)
	}
	values.Set("page[size]", "3")
	request := httptest.NewRequest(http.MethodGet, "https://platform.example"+httpapi.BasePath+fill(path), nil)
	request.Header.Set("Authorization", "Bearer "+fake.Tokens.Issue(model.User{}).AccessToken)
	if values.Get("page[number]") == "last" {
		values.Set("page[number]", "2")
		if w.Patients.Len() > 1000 {
			values.Set("page[number]", "6600")
		}
	}
	request.URL.RawQuery = values.Encode()
	return func() time.Duration {
		began := time.Now()
		recorder := httptest.NewRecorder()
		fake.Handler().ServeHTTP(recorder, request)
		took := time.Since(began)
		if recorder.Code != http.StatusOK {
			b.Fatal(recorder.Body)
		}
		return took
	}
}
