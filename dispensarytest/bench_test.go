package dispensarytest

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/httpapi"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// Every benchmark has a floor in the same run: the same round trip with a handler that only
// writes the platform's bytes. The ratio is the cost of the platform. The floor is the speed
// of this machine today.

// canned returns a handler that repeats the platform's response.
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
		maps.Copy(w.Header(), header)
		_, _ = w.Write(body)
	}
}

// fetch makes one GET and reads the response.
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

// rate fetches a URL from many goroutines and reports GETs per second.
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

// One patient: a small object, behind a token, a scope and the journal.
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
		"patient on loopback": {WithTuning(Tuning{Addr: defaultAddr}), onePatient}, "patient over TLS": {WithTLS(), onePatient},
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

// Target: 500 µs from start to first response of a platform with the default world.
func BenchmarkFirstResponse(b *testing.B) {
	for name, opts := range map[string][]Option{"memory": {WithInMemory()}, "loopback": nil} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				fake, err := Start(opts...)
				if err != nil {
					b.Fatal(err)
				}
				fetch(b, fake.HTTPClient(), fake.Site().BaseURL+"/clinic", fake.Tokens.Issue(model.User{}).AccessToken)
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

// The cost of the first platform in a process. Later platforms share its world.
func BenchmarkBuildDefaultWorld(b *testing.B) {
	for b.Loop() {
		store.BuildWorld(store.DefaultSeed, api.USSandbox)
	}
}
