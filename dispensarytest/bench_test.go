package dispensarytest

import (
	"io"
	"net/http"
	"testing"
)

// discard is a response writer that costs next to nothing.
type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
func (d *discard) WriteHeader(int)             {}

func BenchmarkStartAndClose(b *testing.B) {
	for b.Loop() {
		fake, err := Start()
		if err != nil {
			b.Fatal(err)
		}
		_ = fake.Close()
	}
}

func BenchmarkBuild(b *testing.B) {
	set := defaults()
	set.clock = LiveClock()
	for b.Loop() {
		build(set)
	}
}

func BenchmarkGetInMemory(b *testing.B) {
	fake := New(b)
	token, path := fake.IssueToken(User{}).AccessToken, fake.BaseURL()+"/catalog/products/"+fake.Platform().Products()[0].ID
	b.RunParallel(func(pb *testing.PB) {
		req, _ := http.NewRequest("GET", path, nil)
		req.Header.Set("Authorization", "Bearer "+token)
		for pb.Next() {
			fake.serve(&discard{header: make(http.Header)}, req)
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "GET/s")
}

func BenchmarkGetOnLoopback(b *testing.B) {
	fake := New(b)
	token, path := fake.IssueToken(User{}).AccessToken, fake.BaseURL()+"/catalog/products/"+fake.Platform().Products()[0].ID
	b.SetParallelism(16)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			req, _ := http.NewRequest("GET", path, nil)
			req.Header.Set("Authorization", "Bearer "+token)
			resp, err := fake.HTTPClient().Do(req)
			if err != nil {
				b.Error(err)
				return
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "GET/s")
}
