package clienttest_test

import (
	"testing"

	"github.com/dispensary-go/dispensary"
)

// Programs with many users create a view for each request.
func BenchmarkView(b *testing.B) {
	client := benchClient(b, nil)
	key := dispensary.NewSecret("key")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := client.With(dispensary.WithTokenSource(fixedToken{}), dispensary.WithClinicKey(key)); err != nil {
			b.Fatal(err)
		}
	}
}
