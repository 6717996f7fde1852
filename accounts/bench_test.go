package accounts_test

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/accounts"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/tokens"
)

var environment = dispensary.Environment{Region: dispensary.US, Stage: dispensary.Sandbox}

// connected connects n users, with tokens as long as real ones, and returns their
// accounts. The bytes of the tokens in the store are not those in memory.
func connected(b *testing.B, n int) *accounts.Accounts {
	b.Helper()
	store := tokens.NewMemoryStore()
	for i := range n {
		token := oauth.Token{
			AccessToken:  dispensary.NewSecret(fmt.Sprintf("%064d", i)),
			RefreshToken: dispensary.NewSecret(fmt.Sprintf("%064d", i)),
			ExpiresAt:    time.Now().Add(2 * time.Hour), Lifetime: 2 * time.Hour, Environment: environment,
			Scope: "catalog:read clinic:read clinic:write patients:read patients:write patients:treatment_plan_history patients:order_history",
		}
		if _, err := store.Save(b.Context(), tokens.Key{Environment: environment, User: strconv.Itoa(i)}, token); err != nil {
			b.Fatal(err)
		}
	}
	users, err := accounts.New(accounts.Config{
		Applications: []oauth.Config{{
			Site:     dispensary.Site{Environment: environment, BaseURL: "https://platform.example/api", AuthURL: "https://platform.example"},
			ClientID: "id", ClientSecret: dispensary.NewSecret("secret"), RedirectURL: "https://ehr.example/callback",
		}},
		Tokens: tokens.Config{Store: &copying{store}, CachedUsers: n},
	})
	if err != nil {
		b.Fatal(err)
	}
	return users
}

// What 100,000 users cost who all have a token in memory.
func BenchmarkAccountsMemory(b *testing.B) {
	const count = 100_000
	names := make([]string, count)
	for i := range names {
		names[i] = strings.Clone(strconv.Itoa(i))
	}
	for b.Loop() {
		users := connected(b, count)
		conns, err := users.Connections(environment)
		if err != nil {
			b.Fatal(err)
		}
		before := heapBytes()
		for _, name := range names {
			if _, err := conns.TokenSource(strings.Clone(name)).Token(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(heapBytes()-before)/count, "B/user")
		runtime.KeepAlive(users)
	}
}

func heapBytes() uint64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// The client of a user who is in memory, beside the view of the root client.
func BenchmarkAccountsClient(b *testing.B) {
	const count = 10_000
	users := connected(b, count)
	names := make([]string, count)
	for i := range names {
		names[i] = strconv.Itoa(i)
		if _, err := users.Client(b.Context(), names[i]); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("accounts", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			_, _ = users.Client(b.Context(), names[i%count])
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for i := 0; pb.Next(); i++ {
				_, _ = users.Client(b.Context(), names[i%count])
			}
		})
	})
	b.Run("view", func(b *testing.B) {
		client, err := users.Client(b.Context(), names[0])
		if err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		for b.Loop() {
			_ = client.WithTokenSource(nil)
		}
	})
}

// copying returns records of fresh texts, as a database does.
type copying struct{ tokens.Store }

// Load implements [tokens.Store].
func (c *copying) Load(ctx context.Context, key tokens.Key) (tokens.Record, error) {
	record, err := c.Store.Load(ctx, key)
	token := &record.Token
	token.AccessToken = dispensary.NewSecret(strings.Clone(token.AccessToken.Reveal()))
	token.RefreshToken = dispensary.NewSecret(strings.Clone(token.RefreshToken.Reveal()))
	token.Scope = strings.Clone(token.Scope)
	token.Environment.Region = dispensary.Region(strings.Clone(string(token.Environment.Region)))
	token.Environment.Stage = dispensary.Stage(strings.Clone(string(token.Environment.Stage)))
	return record, err
}
