package catalogtest

import (
	"runtime"
	"slices"
	"testing"
	"time"
)

// Typed returns the text after each letter of each query, as a search box sends it.
func Typed(queries []Query) (typed []string) {
	for _, q := range queries {
		for end := range len(q.Text) {
			typed = append(typed, q.Text[:end+1])
		}
	}
	return typed
}

// Measure calls search with the texts of typed, and reports the median and the 99th percentile
// in microseconds. It counts the fastest of three runs of each search, to exclude other
// processes.
func Measure(b *testing.B, typed []string, search func(string)) {
	b.Helper()
	took := make([]time.Duration, 0, 1_000)
	for i := 0; b.Loop(); i++ {
		best := time.Hour
		for range 3 {
			start := time.Now()
			search(typed[i*31%len(typed)])
			best = min(best, time.Since(start))
		}
		took = append(took, best)
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
	b.ReportMetric(0, "ns/op") // removed, because it would cover all three runs
}

// InUse returns the size of all reachable memory in bytes.
func InUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
