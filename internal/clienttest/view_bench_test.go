package clienttest_test

import (
	"testing"

	"github.com/dispensary-go/dispensary"
)

func BenchmarkView(b *testing.B) {
	client := benchClient(b, nil)
	key := dispensary.NewSecret("key")
	b.ReportAllocs()
	for b.Loop() {
		_ = client.WithTokenSource(fixedToken{}).WithClinicKey(key)
	}
}
func BenchmarkView1(b *testing.B) {
	client := benchClient(b, nil)
	b.ReportAllocs()
	for b.Loop() {
		_ = client.WithTokenSource(fixedToken{})
	}
}
