package simulation

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/lab/schedule"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

// reconcile runs a replica's reconciler.
func (w *eventWorld) reconcile(p *schedule.Process, r *receiver) {
	client, err := dispensary.New(w.platform.Site(), dispensary.WithTokenSource(w.platform), dispensary.WithLogger(r.logger),
		dispensary.WithTransport(p.Transport(w.platform.HTTPClient().Transport, w.tellRequest)))
	if err != nil {
		panic(err)
	}
	clinics, err := reconcile.New(reconcile.Config{
		Environment: w.platform.Site().Environment, Inbox: r.inbox, List: reconcile.ClinicIDs("clinic"),
		Open: func(context.Context, string, api.Limiter) (reconcile.Clinic, error) {
			return reconcile.Clinic{Events: client.Events, Integrations: reconcile.Integrations(w.integration)}, nil
		},
		WholeEvery: time.Nanosecond, // every run is whole
		Groups:     []events.Group{events.GroupPatients}, Overlap: time.Minute, Logger: r.logger, Now: w.clockOf(p.Name),
	})
	if err != nil {
		panic(err)
	}
	go func() {
		time.Sleep(time.Minute) // start after the first webhooks
		_ = clinics.Loop(p.Context(), 40*time.Minute)
	}()
}

// tellRequest returns the name of a reconciler's request in the story.
func (w *eventWorld) tellRequest(r *http.Request, _ []byte) string {
	path := strings.TrimPrefix(r.URL.Path, "/api")
	if id, ok := strings.CutPrefix(path, "/events/"); ok && !strings.Contains(id, "patients") {
		path = "/events/" + w.name(id)
	}
	return r.Method + " " + path
}

// deliver sends a webhook of the platform to one of the replicas, like a load balancer.
func (w *eventWorld) deliver(r *http.Request) (*http.Response, error) {
	to := w.nextReceiver()
	refused := w.refusal(to, r)
	return to.process.Serve(to.handler, r, func(body []byte, status int) {
		refused(status)
		w.acknowledged(body, status)
	})
}

// nextReceiver returns the receivers in turn.
func (w *eventWorld) nextReceiver() receiver {
	w.mu.Lock()
	defer w.mu.Unlock()
	names := slices.Sorted(maps.Keys(w.receivers))
	w.turn++
	return *w.receivers[names[w.turn%len(names)]]
}

// acknowledged checks that an acknowledged event is stored.
func (w *eventWorld) acknowledged(body []byte, status int) {
	if status != http.StatusOK {
		return
	}
	w.webhooks.Add(1)
	if id := string(idOf.FindSubmatch(body)[1]); !w.stored(id) {
		w.s.Failf("%s is acknowledged but not stored", w.name(id))
	}
}

func (w *eventWorld) key(id string) webhook.Key {
	return webhook.Key{Environment: w.platform.Site().Environment, EventID: id, IntegrationID: w.integration}
}

func (w *eventWorld) stored(id string) bool {
	if w.memory != nil {
		missing, err := w.memory.Missing(context.Background(), []webhook.Key{w.key(id)})
		return err == nil && len(missing) == 0
	}
	w.table.mu.Lock()
	defer w.table.mu.Unlock()
	return w.table.rows[w.key(id)] != nil
}

// handle is the handler of the program.
func (w *eventWorld) handle(ctx context.Context, p *schedule.Process, e events.Event, task webhook.HandlerFunc) error {
	key := webhook.HandlingFrom(ctx).Key
	name := w.name(e.ID)
	order := w.begin(p, key, name)
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.running[order], name)
	}()
	if task != nil {
		if err := task(ctx, e); err != nil {
			return err
		}
	}
	call := schedule.Spec{Name: "handles " + name, Fates: []schedule.Fate{schedule.Refused}, Fail: func(schedule.Fate) error { return errHandler }}
	_, err := schedule.Do(ctx, p, call, func() (nothing, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.handled[key]++; w.handled[key] > 1 {
			if w.extra++; w.extra > 3*w.s.Disturbed() {
				w.s.Failf("%s is handled again without a fault", name)
			}
		}
		return nothing{}, nil
	})
	return err
}

// begin checks that events of one ordering key are handled one at a time, the oldest waiting event
// first.
func (w *eventWorld) begin(p *schedule.Process, key webhook.Key, name string) webhook.OrderingKey {
	if w.memory != nil {
		return w.beginInMemory(key, name)
	}
	w.table.mu.Lock()
	defer w.table.mu.Unlock()
	this := w.table.rows[key]
	if this == nil {
		w.s.Failf("%s is handled but was never stored", name)
		return ""
	}
	if this.state != engine.StateRunning || !time.Now().Before(this.due) {
		return this.order // the claim is already lost
	}
	for _, other := range w.table.open() {
		if this.order == "" || other == this || other.order != this.order {
			continue
		}
		until, running := w.runs(this.order, w.name(other.Key.EventID))
		if running && time.Now().Before(until) {
			w.s.Failf("%s is handled at the same time as %s", name, w.name(other.Key.EventID))
		}
		if other.OrderTime().Before(this.OrderTime()) && other.storedAt.Before(this.due.Add(-claimTime)) && other.state == engine.StateWaiting {
			w.s.Failf("%s is handled before %s, although the latter is older and waiting", name, w.name(other.Key.EventID))
		}
	}
	if w.stale == webhook.StalePolicySkip && this.object != "" && this.CreatedAt.Before(w.table.newest[this.object]) {
		w.s.Failf("%s is handled after a newer event of its object", name)
	}
	w.note(this.order, name, this.due)
	return this.order
}

func (w *eventWorld) runs(order webhook.OrderingKey, name string) (until time.Time, running bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	until, running = w.running[order][name]
	return until, running
}

func (w *eventWorld) note(order webhook.OrderingKey, name string, until time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running[order] == nil {
		w.running[order] = map[string]time.Time{}
	}
	w.running[order][name] = until
}

// beginInMemory is the variant of begin for an inbox in memory. All events are in one process, so
// w.running contains every running event of a patient.
func (w *eventWorld) beginInMemory(key webhook.Key, name string) webhook.OrderingKey {
	order := webhook.OrderingKey(w.patientOf(key.EventID))
	w.mu.Lock()
	for other := range w.running[order] {
		w.s.Failf("%s is handled at the same time as %s", name, other)
	}
	w.mu.Unlock()
	w.note(order, name, time.Time{})
	return order
}

func (w *eventWorld) patientOf(id string) string {
	all := w.platform.Events()
	at := slices.IndexFunc(all, func(e model.Event) bool { return e.ID == id })
	return all[at].ObjectID
}

// promises adds the final invariants: every event of the platform is stored and handled.
func (w *eventWorld) promises() {
	w.s.SettledWhen("every event is stored and finished", func() bool {
		for _, e := range w.platform.Events() {
			if !w.stored(e.ID) {
				return false
			}
		}
		if w.memory != nil {
			stats, err := w.memory.Stats(context.Background())
			return err == nil && stats.Waiting+stats.Running == 0
		}
		w.table.mu.Lock()
		defer w.table.mu.Unlock()
		return len(w.table.open()) == 0
	})
	w.s.InTheEnd(func() error {
		for _, e := range w.platform.Events() {
			skipped := w.stale == webhook.StalePolicySkip
			if w.handled[w.key(e.ID)] == 0 && !skipped {
				return fmt.Errorf("%s was never handled", w.name(e.ID))
			}
		}
		for _, r := range w.table.rows {
			if r.state == engine.StateDead {
				return fmt.Errorf("%s is a dead letter after %d attempts", w.name(r.Key.EventID), r.attempts)
			}
		}
		return nil
	})
}
