package dispensarytest

import (
	"flag"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/internal/testsize"
)

var (
	walkSeed  = flag.Uint64("walk.seed", 0, "seed of the random walk; 0 takes one from the time")
	walkSteps = flag.Int("walk.steps", 0, "steps of the random walk; 0 is 20,000, or 100,000 in full size, and less with the race detector")
)

const walkLength = 400 // steps of one sequence

// walkDefault is how far the walk goes. The race detector makes every step take ten
// times as long, and learns little from one sequence after the other.
var walkDefault = testsize.Of(20_000, 100_000) / testsize.UnderRace(5, 1)

// TestPlatformAgreesWithModel walks at random: API calls, what people do on the
// platform, and time passing. After every step the platform has to say what the
// model says. A walk that fails is shortened and printed; its seed repeats it:
//
//	go test ./dispensarytest -run TestPlatformAgreesWithModel -walk.seed 17
func TestPlatformAgreesWithModel(t *testing.T) {
	t.Parallel()
	seed := *walkSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	limit := *walkSteps
	if limit == 0 {
		limit = walkDefault
	}
	var mu sync.Mutex
	met := make(map[string]int)
	var next, taken atomic.Int64
	var group sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for int(taken.Load()) < limit && !t.Failed() {
				n := uint64(next.Add(1))
				l, steps := sequence(seed, n, walkLength)
				found, answers := replay(l, steps)
				if found != nil {
					short, replays := shrink(l, found)
					t.Errorf("platform and model disagree (seed %d, sequence %d, behavior %s), shortened from %d steps to %d in %d replays:%s",
						seed, n, l.setting, len(found.steps), len(short.steps), replays, short)
					return
				}
				taken.Add(int64(len(steps)))
				mu.Lock()
				for answer, times := range answers {
					met[answer] += times
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
	t.Logf("seed %d: %d steps in %d sequences", seed, taken.Load(), next.Load())
	if !t.Failed() && limit >= 50_000 {
		everythingWasMet(t, met)
	}
}

// sequence is the n-th of a seed. Sequences take turns in how refreshing works.
func sequence(seed, n uint64, length int) (laws, []step) {
	return trueLaws([]Behavior{RefreshRotationNone, RefreshRotationGrace, RefreshRotationImmediate}[n%3]), randomSteps(rand.New(rand.NewPCG(seed, n)), length)
}

// everythingWasMet demands that the walk was worth its time: each move has
// succeeded, and each that can be refused was refused in each way.
func everythingWasMet(t *testing.T, met map[string]int) {
	t.Helper()
	for _, mv := range moves() {
		ok := 0
		for answer, times := range met {
			if name, status, _ := cutLast(answer); name == mv.name && status < "4" {
				ok += times
			}
		}
		if mv.name != "use a wrong verb" {
			assert.Greater(t, ok, 20, "%s has hardly ever succeeded", mv.name)
		}
	}
	for _, rare := range []string{
		"get a patient 401", "get a patient 403", "get a patient 404", "create a patient 422", "create staff 422", "update a user 422",
		"activate a plan 422", "cancel a plan 422", "check a plan out 422", "get a plan 403", "make a link 400", "make a link 403", "redeem a code 400",
		"refresh 400", "get an event 404", "get an event 403", "a patient orders 422", "an order is refunded 422",
	} {
		assert.Greater(t, met[rare], 5, rare)
	}
}

func cutLast(answer string) (name, status string, ok bool) {
	at := strings.LastIndexByte(answer, ' ')
	return answer[:at], answer[at+1:], at >= 0
}

// A driver that notices nothing would agree with everything: against a model
// with one wrong rule it has to find the difference, and show it in a few steps.
func TestWalkNoticesWrongRules(t *testing.T) {
	t.Parallel()
	testsize.SkipUnderRace(t)
	bends := map[string]func(*laws){
		"codes live 11 minutes":                    func(l *laws) { l.codeLife = 11 * time.Minute },
		"tokens live 3 hours":                      func(l *laws) { l.tokenLife = 3 * time.Hour },
		"events are kept for 31 days":              func(l *laws) { l.retention += 24 * time.Hour },
		"codes work twice":                         func(l *laws) { l.codesWorkOnce = false },
		"refreshing keeps the token":               func(l *laws) { l.rotation = RefreshRotationNone },
		"revoking spares the refresh token":        func(l *laws) { l.revokingEndsRefresh = false },
		"more scopes leave tokens alone":           func(l *laws) { l.extendingEndsTokens = false },
		"capital letters make another address":     func(l *laws) { l.addressesFold = false },
		"staff may have a practitioner's address":  func(l *laws) { l.usersShareAddresses = false },
		"drafts can be cancelled":                  func(l *laws) { l.cancelFrom = []string{"draft", "active"} },
		"cancelled plans can be activated":         func(l *laws) { l.activateFrom = []string{"draft", "cancelled"} },
		"drafts need no patient to be activated":   func(l *laws) { l.completeActivate = false },
		"cancelled plans keep their lines":         func(l *laws) { l.cancellingEmpties = false },
		"events of one object may have one time":   func(l *laws) { l.eventsApart = false },
		"the API makes events":                     func(l *laws) { l.callsMakeEvents = true },
		"drafts make events":                       func(l *laws) { l.draftsMakeEvents = true },
		"a key does not activate":                  func(l *laws) { l.firstUseActivates = false },
		"plans made elsewhere need no other scope": func(l *laws) { l.outsideNeedsHistory = false },
	}
	for _, name := range slices.Sorted(maps.Keys(bends)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for n := uint64(1); n <= 100; n++ {
				l, steps := sequence(1, n, walkLength/2)
				bends[name](&l)
				found, _ := replay(l, steps)
				if found == nil {
					continue
				}
				short, replays := shrink(l, found)
				require.NotNil(t, short)
				assert.LessOrEqual(t, len(short.steps), 8, "%s", short)
				t.Logf("sequence %d, shortened from %d steps to %d in %d replays:%s", n, len(found.steps), len(short.steps), replays, short)
				return
			}
			t.Error("no sequence showed the wrong rule")
		})
	}
}

func TestStepsAreReadable(t *testing.T) {
	t.Parallel()
	idle := func(*driver) (any, error) { return nil, nil }
	call := request{method: "PATCH", path: []any{"/clinic/treatment_plans/", ref{"plan", 3}, "/cancel"}, token: -1, key: rightKey}
	assert.Equal(t, "PATCH /clinic/treatment_plans/plan#3/cancel with token#unknown and the clinic key", call.String())
	redeem := request{method: "POST", path: []any{"/oauth/token"}, open: true, body: map[string]any{"client_id": ref{"client_id", 0}, "code": ref{"code", 2}, "n": []any{1, "x"}}}
	assert.Equal(t, `POST /oauth/token {code: code#2, n: [1, "x"]}`, redeem.String())
	found := &disagreement{did: []deed{{request{act: idle, text: "one"}, 200}, {request{act: idle, text: "two"}, 404}}, differ: "the platform answered 404, the model says 200"}
	assert.Equal(t, "\n   1. one → 200\n   2. two → 404\n      the platform answered 404, the model says 200", found.String())
}
