package tokens_test

import (
	"testing"
	"time"

	"golang.org/x/oauth2"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/oauth/internal/oauthtest"
	"github.com/dispensary-go/dispensary/oauth/tokens"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// BenchmarkToken compares the hot path with x/oauth2's own source of a valid token, from one
// goroutine and from many goroutines of one user.
func BenchmarkToken(b *testing.B) {
	floor := oauth2.ReuseTokenSource(&oauth2.Token{AccessToken: "access", Expiry: time.Now().Add(time.Hour)}, nil)
	source, ctx := validSource(b), b.Context()
	for name, call := range map[string]func() error{
		"x_oauth2":   func() error { _, err := floor.Token(); return err },
		"dispensary": func() error { _, err := source.Token(ctx); return err },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := call(); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/parallel", func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					_ = call()
				}
			})
		})
	}
}

// BenchmarkRebuiltSource creates a source for one request. The source reads the store.
func BenchmarkRebuiltSource(b *testing.B) {
	store := tokenstore.NewMemoryStore()
	conns := newConns(b, oauthtest.NewPlatform(oauthtest.RotateNever), store)
	_, _ = store.Save(b.Context(), conns.Key(user), oauthtest.FirstToken(time.Hour))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := conns.TokenSource(user).Token(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

func validSource(b testing.TB) tokens.TokenSource {
	b.Helper()
	store := tokenstore.NewMemoryStore()
	conns := newConns(b, oauthtest.NewPlatform(oauthtest.RotateNever), store)
	_, err := store.Save(b.Context(), conns.Key(user), oauthtest.FirstToken(time.Hour))
	require.NoError(b, err)
	source := conns.TokenSource(user)
	_, err = source.Token(b.Context())
	require.NoError(b, err)
	return source
}

// The benchmark shows the same figure, but asserts nothing.
func TestHotPathAllocatesNothing(t *testing.T) { //nolint:paralleltest // counts the allocations of the process
	source, ctx := validSource(t), t.Context()
	assert.Zero(t, testing.AllocsPerRun(1000, func() { _, _ = source.Token(ctx) }))
}
