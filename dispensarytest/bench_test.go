package dispensarytest

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/httpapi"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// Every benchmark has a floor in the same run: the same way there and back, with
// a handler that only writes the platform's bytes. The ratio of the two is what
// the platform costs; the floor is what this machine does today.

// canned answers what the platform answered, without knowing why.
func canned(b *testing.B, fake *Server, path, token string) http.HandlerFunc {
	recorder := httptest.NewRecorder()
	request := httptest.NewRequest(http.MethodGet, "https://platform.example"+path, nil)
	request.Header.Set("Authorization", "Bearer "+token)
	fake.Handler().ServeHTTP(recorder, request)
	if recorder.Code != http.StatusOK {
		b.Fatal(recorder.Body)
	}
	header, body := recorder.Header(), recorder.Body.Bytes()
	return func(w http.ResponseWriter, _ *http.Request) {
		for name, values := range header {
			w.Header()[name] = values
		}
		_, _ = w.Write(body)
	}
}

// fetch makes one GET and reads its answer.
func fetch(b *testing.B, client *http.Client, address, token string) {
	request, err := http.NewRequest(http.MethodGet, address, nil)
	if err != nil {
		b.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := client.Do(request)
	if err != nil {
		b.Error(err)
		return
	}
	_, _ = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		b.Error(response.Status)
	}
}

// rate fetches an address from many goroutines and reports GETs per second.
func rate(b *testing.B, client *http.Client, address, token string) {
	b.ReportAllocs()
	b.SetParallelism(16)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			fetch(b, client, address, token)
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "GET/s")
}

// one patient: a small object, behind a token, a scope and the journal.
func onePatient(fake *Server) string {
	return httpapi.BasePath + "/clinic/patients/" + fake.Patients.All()[0].ID
}

// Targets: 100,000 GET/s of one patient on two cores in memory, 30,000 on loopback. A page
// has 100 products, about 40 KB. The floor of TLS is a server without it.
func BenchmarkGet(b *testing.B) {
	page := func(*Server) string { return httpapi.BasePath + "/catalog/products?page[size]=100" }
	for name, c := range map[string]struct {
		way  Option
		path func(*Server) string
	}{
		"patient in memory": {WithInMemory(), onePatient}, "page in memory": {WithInMemory(), page},
		"patient on loopback": {WithAddr(defaultAddr), onePatient}, "patient over TLS": {WithTLS(), onePatient},
	} {
		fake := New(b, c.way)
		token, path := fake.Tokens.Issue(model.User{}).AccessToken, c.path(fake)
		floor := httptest.NewServer(canned(b, fake, path, token))
		defer floor.Close()
		origin := floor.URL
		if fake.http == nil {
			origin = ehr
			if err := fake.Host(ehr, canned(b, fake, path, token)); err != nil {
				b.Fatal(err)
			}
		}
		b.Run(name+"/floor", func(b *testing.B) { rate(b, fake.HTTPClient(), origin+path, token) })
		b.Run(name+"/platform", func(b *testing.B) { rate(b, fake.HTTPClient(), fake.origin+path, token) })
	}
}

// Target: 500 µs until a platform with the default world has answered first.
func BenchmarkFirstAnswer(b *testing.B) {
	for name, opts := range map[string][]Option{"memory": {WithInMemory()}, "loopback": nil} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				fake, err := Start(opts...)
				if err != nil {
					b.Fatal(err)
				}
				fetch(b, fake.HTTPClient(), fake.BaseURL()+"/clinic", fake.Tokens.Issue(model.User{}).AccessToken)
				_ = fake.Close()
			}
		})
	}
	b.Run("floor on loopback", func(b *testing.B) {
		body := bytes.Repeat([]byte("x"), 400)
		for b.Loop() {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) }))
			fetch(b, server.Client(), server.URL, "")
			server.Close()
		}
	})
}

// What the first platform of a process pays and later ones share.
func BenchmarkBuildDefaultWorld(b *testing.B) {
	for b.Loop() {
		store.BuildWorld(store.DefaultSeed, model.UnitedStates, false)
	}
}

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
	w := partsOf(fake).store.World
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
