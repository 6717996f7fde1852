package probe_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/probe"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/testkit/testsize"
	"github.com/dispensary-go/dispensary/oauth"
)

// sandbox describes a platform to probe and the tokens of its integrator.
type sandbox struct {
	livedIn       bool // has orders, deliveries and a product on vendor backorder
	spare, narrow bool // Config.Spare and Config.Narrow are set
}

func start(t *testing.T, options ...dispensarytest.Option) *dispensarytest.Server {
	t.Helper()
	frozen := dispensarytest.FrozenClock(time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC))
	return dispensarytest.New(t, append([]dispensarytest.Option{dispensarytest.WithInMemory(), dispensarytest.WithClock(frozen)}, options...)...)
}

// config returns the config of a run without Spare and Narrow.
func config(fake *dispensarytest.Server) probe.Config {
	app := fake.Application()
	return probe.Config{
		Application: oauth.Config{
			Site: fake.Site(), ClientID: app.ClientID, ClientSecret: dispensary.NewSecret(app.ClientSecret),
			RedirectURL: app.RedirectURI, Transport: fake.HTTPClient().Transport,
		},
		Token: authorization(fake), ClinicKey: dispensary.NewSecret(fake.ClinicKey()),
		Confirm: func(probe.Plan) bool { return true },
		Sleep:   func(_ context.Context, d time.Duration) error { fake.Clock.Advance(d); return nil },
	}
}

func authorization(fake *dispensarytest.Server) oauth.Token {
	issued := fake.Tokens.Issue(model.User{})
	return oauth.Token{
		AccessToken: dispensary.NewSecret(issued.AccessToken), RefreshToken: dispensary.NewSecret(issued.RefreshToken),
		ResourceOwner: oauth.ResourceOwner{ID: issued.User.ID, Type: issued.User.Type}, Environment: fake.Site().Environment,
	}
}

// run probes a platform, after liveIn if the sandbox is lived in.
func (b sandbox) run(t *testing.T, fake *dispensarytest.Server) probe.Report {
	t.Helper()
	if b.livedIn {
		liveIn(t, fake)
	}
	c := config(fake)
	if b.spare {
		c.Spare = authorization(fake)
	}
	if b.narrow {
		c.Narrow = dispensary.NewSecret(fake.Tokens.Issue(model.User{}, "catalog:read").AccessToken)
	}
	report, err := probe.Run(t.Context(), c)
	require.NoError(t, err)
	return report
}

// liveIn creates an order, a vendor backorder, and deliveries without a response.
func liveIn(t *testing.T, fake *dispensarytest.Server) {
	t.Helper()
	var dead atomic.Bool
	challenge := fake.Application().ChallengeToken
	require.NoError(t, fake.Webhooks.RegisterHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if dead.Load() {
			panic(http.ErrAbortHandler)
		}
		fmt.Fprintf(w, `{"challenge":%q}`, challenge)
	})))
	dead.Store(true)
	client := fake.Client(model.User{}, dispensary.WithClinicKey(dispensary.NewSecret(fake.ClinicKey())))
	_, err := client.Clinic.Get(t.Context())
	require.NoError(t, err)
	for _, product := range fake.Products.All() {
		if variant, _ := fake.Variants.Get(product.VariantIDs[0]); variant.Status == model.VariantUnavailable {
			_, _, err := fake.Products.UpdateVariant(variant.ID, model.VariantUpdate{Status: new(model.VariantVendorBackorder)})
			require.NoError(t, err)
		}
	}
	_, _, err = fake.Orders.Place(fake.Patients.All()[0].ID, model.OrderCreate{})
	require.NoError(t, err)
	for range 3 {
		fake.Clock.Advance(5 * time.Minute)
	}
}

// notSeen returns the points that a run cannot observe, given the chosen variants.
func (b sandbox) notSeen(chosen map[string]string) map[string]bool {
	points := map[string]bool{
		"delivery-conditions": true, "delivery-timeout": true, "event-times": true, "plan-created-event": true, "probe": true,
		"probe-signature": true, "rate-limit": true, "resume-after-enable": true, "webhook-envelope": true,
		"missing-scope-status":   !b.narrow,
		"integration-activation": chosen["integration-activation"] == "from-the-start",
		"revocation-reach": chosen["access-token-after-refresh"] == "ended" ||
			!b.spare && chosen["refresh-token-revocation"] == "revoked",
	}
	for _, name := range []string{"delivery-log", "product-event-clinic", "retry-schedule", "unanswered-status", "unwrapped-event-data", "vendor-backorder"} {
		points[name] = !b.livedIn
	}
	return points
}

// A run finds each observable variant with its requests. A fake platform with the written file
// behaves the same.
func TestRunFindsRandomBehaviors(t *testing.T) {
	t.Parallel()
	var most atomic.Int64
	t.Run("platforms", func(t *testing.T) {
		for i := range testsize.Of(12, 300) {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				requests := findsBehaviors(t, uint64(i))
				for old := most.Load(); int64(requests) > old && !most.CompareAndSwap(old, int64(requests)); old = most.Load() {
				}
			})
		}
	})
	t.Logf("at most %d requests", most.Load())
}

func findsBehaviors(t *testing.T, seed uint64) (requests int) {
	dice := rand.New(rand.NewPCG(seed, 1))
	b := sandbox{livedIn: dice.IntN(2) == 0, spare: dice.IntN(2) == 0, narrow: dice.IntN(2) == 0}
	chosen := map[string]string{}
	var behaviors []behavior.Variant
	for _, choice := range behavior.Choices() {
		picked := choice.Variants[dice.IntN(len(choice.Variants))]
		chosen[choice.Name] = picked.Name()
		behaviors = append(behaviors, picked)
	}
	fake := start(t, dispensarytest.WithBehavior(behaviors...))
	report := b.run(t, fake)
	hidden := b.notSeen(chosen)
	for _, f := range report.Findings {
		if hidden[f.Point] {
			assert.Equal(t, probe.NotObservable, f.Verdict, "%s: %s", f.Point, f.Why)
			assert.NotEmpty(t, f.Why, f.Point)
			continue
		}
		assert.Equal(t, probe.Seen, f.Verdict, "%s: %s", f.Point, f.Why)
		assert.Equal(t, chosen[f.Point], f.Variant, f.Point)
		assert.NotEmpty(t, f.RequestIDs, f.Point)
	}
	assert.LessOrEqual(t, report.Requests, probe.MaxRequests)
	assert.NotEmpty(t, report.Created)

	name := filepath.Join(t.TempDir(), "behaviors.json")
	file, err := os.Create(name)
	require.NoError(t, err)
	require.NoError(t, report.WriteBehaviors(file))
	require.NoError(t, file.Close())
	activation := behavior.Variant("integration-activation=" + chosen["integration-activation"]) // from-the-start is never observable
	again := b.run(t, start(t, dispensarytest.WithBehavior(activation), dispensarytest.WithBehaviorsFile(name)))
	assert.Equal(t, withoutIDs(report), withoutIDs(again))
	return max(report.Requests, again.Requests)
}

// withoutIDs returns the findings of a report without request ids.
func withoutIDs(r probe.Report) []probe.Finding {
	var all []probe.Finding
	for _, f := range r.Findings {
		f.RequestIDs = nil
		all = append(all, f)
	}
	return all
}
