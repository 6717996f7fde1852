package tokens_test

import (
	"runtime"
	"strconv"
	"testing"
	"time"

	"golang.org/x/oauth2"

	"github.com/dispensary-go/dispensary/oauth/internal/oauthtest"
	"github.com/dispensary-go/dispensary/oauth/tokens"
)

// The hot path beside the floor, x/oauth2's own source of a valid token.
func BenchmarkToken(b *testing.B) {
	b.Run("x_oauth2", func(b *testing.B) {
		source := oauth2.ReuseTokenSource(oauthtest.FirstToken(time.Hour).OAuth2(), nil)
		b.ReportAllocs()
		for b.Loop() {
			if _, err := source.Token(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("dispensary", func(b *testing.B) {
		source := validSource(b)
		ctx := b.Context()
		b.ReportAllocs()
		for b.Loop() {
			if _, err := source.Token(ctx); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// The same from many goroutines of one user.
func BenchmarkTokenParallel(b *testing.B) {
	b.Run("x_oauth2", func(b *testing.B) {
		source := oauth2.ReuseTokenSource(oauthtest.FirstToken(time.Hour).OAuth2(), nil)
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				_, _ = source.Token()
			}
		})
	})
	b.Run("dispensary", func(b *testing.B) {
		source := validSource(b)
		ctx := b.Context()
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				_, _ = source.Token(ctx)
			}
		})
	})
}

// A source made for one request, which reads the store.
func BenchmarkRebuiltSource(b *testing.B) {
	store := tokens.NewMemoryStore()
	conns := newConns(b, oauthtest.NewPlatform(oauthtest.RotateNever), store)
	_, _ = store.Save(b.Context(), conns.Key(user), oauthtest.FirstToken(time.Hour))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := conns.TokenSource(user).Token(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// What a user costs in memory who has a source with a token in it.
func BenchmarkSourceMemory(b *testing.B) {
	store := tokens.NewMemoryStore()
	conns := newConns(b, oauthtest.NewPlatform(oauthtest.RotateNever), store)
	const users = 10_000
	for b.Loop() {
		for i := range users {
			_, _ = store.Save(b.Context(), conns.Key(strconv.Itoa(i)), oauthtest.FirstToken(time.Hour))
		}
		before := heap()
		sources := make([]*tokens.TokenSource, users)
		for i := range sources {
			sources[i] = conns.TokenSource(strconv.Itoa(i))
			_, _ = sources[i].Token(b.Context())
		}
		b.ReportMetric(float64(heap()-before)/users, "B/user")
		runtime.KeepAlive(sources)
	}
}

func heap() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

func validSource(b *testing.B) *tokens.TokenSource {
	b.Helper()
	store := tokens.NewMemoryStore()
	conns := newConns(b, oauthtest.NewPlatform(oauthtest.RotateNever), store)
	if _, err := store.Save(b.Context(), conns.Key(user), oauthtest.FirstToken(time.Hour)); err != nil {
		b.Fatal(err)
	}
	source := conns.TokenSource(user)
	if _, err := source.Token(b.Context()); err != nil {
		b.Fatal(err)
	}
	return source
}

// TestHotPathAllocatesNothing holds what the benchmark shows.
func TestHotPathAllocatesNothing(t *testing.T) { //nolint:paralleltest // counts the allocations of the process
	store := tokens.NewMemoryStore()
	conns := newConns(t, oauthtest.NewPlatform(oauthtest.RotateNever), store)
	if _, err := store.Save(t.Context(), conns.Key(user), oauthtest.FirstToken(time.Hour)); err != nil {
		t.Fatal(err)
	}
	source := conns.TokenSource(user)
	ctx := t.Context()
	if allocations := testing.AllocsPerRun(1000, func() { _, _ = source.Token(ctx) }); allocations != 0 {
		t.Fatalf("%v allocations", allocations)
	}
}
