package explore

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/schedule"
	"github.com/dispensary-go/dispensary/internal/testsize"
)

// orders is the table of an integrator who counts the orders of patients.
type orders struct {
	mu     sync.Mutex
	seen   map[string]bool // by event
	count  int
	placed int
}

func (o *orders) complete() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.count >= o.placed
}

// program is a receiver as integrators write it, with one of the mistakes they make.
type program struct {
	replica *Replica
	orders  *orders
	answer  string

	acknowledgesFirst, countsTwice, locksApart bool
}

func (p *program) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var event struct{ Event struct{ ID string } }
	_ = json.Unmarshal(body, &event)
	if p.acknowledgesFirst {
		go func() { _ = p.store(p.replica.Context(), event.Event.ID) }()
	} else if p.store(r.Context(), event.Event.ID) != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	_, _ = io.WriteString(w, p.answer)
}

func (p *program) store(ctx context.Context, id string) error {
	known := false
	if p.locksApart {
		var err error
		if known, err = Call(ctx, p.replica, "database: is "+id+" there", func() (bool, error) { return p.known(id), nil }); err != nil {
			return err
		}
	}
	_, err := Call(ctx, p.replica, "database: count "+id, func() (bool, error) {
		p.orders.mu.Lock()
		defer p.orders.mu.Unlock()
		if !known && (p.countsTwice || p.locksApart || !p.orders.seen[id]) {
			p.orders.count++
		}
		p.orders.seen[id] = true
		return true, nil
	})
	return err
}

func (p *program) known(id string) bool {
	p.orders.mu.Lock()
	defer p.orders.mu.Unlock()
	return p.orders.seen[id]
}

// world is two replicas of a program, and patients who order.
func world(mistake func(*program)) func(w *World) {
	return func(w *World) {
		db := &orders{seen: map[string]bool{}}
		answer := `{"challenge":"` + w.Platform().Application().ChallengeToken + `"}`
		for _, name := range []string{"ehr-1", "ehr-2"} {
			w.Replica(name, func(r *Replica) {
				p := &program{replica: r, orders: db, answer: answer}
				mistake(p)
				r.Receive(p, "order.placed")
			})
		}
		if _, err := w.Platform().Clinics.ActivateKey(w.Platform().ClinicKey()); err != nil {
			w.Failf("%w", err)
		}
		patient, variant := w.Platform().Patients.All()[0].ID, w.Platform().Products.All()[0].VariantIDs[0]
		w.Do("a patient orders", 2, func() {
			if _, _, err := w.Platform().Orders.Place(patient, model.NewOrder{Lines: []model.Line{{VariantID: variant, Quantity: 1}}}); err != nil {
				w.Failf("%w", err)
			}
			db.mu.Lock()
			defer db.mu.Unlock()
			db.placed++
		})
		w.Until("every order is counted", db.complete)
		w.InTheEnd(func() error {
			db.mu.Lock()
			defer db.mu.Unlock()
			if db.count != db.placed {
				return assert.AnError
			}
			return nil
		})
	}
}

var options = Options{Schedules: 400, Platform: []dispensarytest.Option{dispensarytest.WithBehavior(dispensarytest.DeliveryConditionsOff)}}

// TestRunIsContentWithARightProgram holds that no fault harms a program that stores before it acknowledges,
// and recognizes what it has stored.
func TestRunIsContentWithARightProgram(t *testing.T) {
	Run(t, options, world(func(*program) {}))
}

// TestMistakesAreFound holds that usual mistakes are found, shrunk, and told again by the same seed.
func TestMistakesAreFound(t *testing.T) {
	testsize.SkipUnderRace(t)
	for name, mistake := range map[string]func(*program){
		"acknowledges before it stores":      func(p *program) { p.acknowledgesFirst = true },
		"counts what comes twice":            func(p *program) { p.countsTwice = true },
		"looks and counts in two statements": func(p *program) { p.locksApart = true },
	} {
		t.Run(name, func(t *testing.T) {
			o := options.withFlags()
			found := search(t, o, world(mistake))
			require.NotNil(t, found, "no schedule notices")
			again := schedule.Once(t, found.Seed, scenario(t, o, world(mistake)))
			assert.Equal(t, found.Story, again.Story, "the seed makes the same schedule")
			short := schedule.Shrink(t, *found, scenario(t, o, world(mistake)))
			require.Error(t, short.Violation)
			assert.LessOrEqual(t, len(short.Decisions), len(found.Decisions))
			assert.Less(t, len(short.Decisions), 12, "%s", short)
			assert.Contains(t, strings.Join(short.Story, "\n"), "a patient orders")
		})
	}
}

// TestOptions holds what the flags and zero values mean.
func TestOptions(t *testing.T) {
	assert.Equal(t, Options{Seed: 1, Schedules: DefaultSchedules}, Options{}.withFlags())
	assert.Equal(t, Options{Seed: 5, Schedules: 7}, Options{Seed: 5, Schedules: 7}.withFlags())
}

// TestClientMeetsFaults holds that calls of the platform go through the scheduler.
func TestClientMeetsFaults(t *testing.T) {
	var mu sync.Mutex
	failed, answered := 0, 0
	Run(t, Options{Schedules: 100}, func(w *World) {
		done := false
		w.Replica("ehr-1", func(r *Replica) {
			go func() {
				for {
					r.Step("a person clicks")
					response, err := r.Client().Get(w.Platform().BaseURL() + "/clinic")
					mu.Lock()
					if err != nil {
						failed++
					} else {
						answered++
						_ = response.Body.Close()
						done = done || w.Recovering()
					}
					mu.Unlock()
					time.Sleep(time.Second)
				}
			}()
		})
		w.Until("the platform answers", func() bool { mu.Lock(); defer mu.Unlock(); return done })
	})
	assert.Positive(t, failed)
	assert.Positive(t, answered)
}
