package simulation

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/catalogsync"
	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/lab/schedule"
	"github.com/dispensary-go/dispensary/oauth/accounts"
	"github.com/dispensary-go/dispensary/oauth/tokens"
	"github.com/dispensary-go/dispensary/treatmentplans"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

// TestWhole checks the guarantees of all parts in the same replicas: accounts, receiver, inbox,
// worker, reconciler, refresher and catalog.
func TestWhole(t *testing.T) { explore(t, newWholeWorld, 250, 15_000) }

// wholeWorld is a platform and replicas with all parts. Their handler calls the API as one of the
// users. It ensures a plan for each patient and reads the plan of each plan event.
type wholeWorld struct {
	s        *schedule.Scheduler
	platform *platform
	tokens   *tokenWorld
	events   *eventWorld
	catalog  *catalogWorld

	author, variant string        // practitioner and variant of plans
	sync            time.Duration // delay of a replica's first catalog sync after its start
	wholeEvery      time.Duration // interval of whole reconciler runs, which find lost events

	mu      sync.Mutex
	ensured map[string]bool // IDs of patients with an ensured plan
}

func newWholeWorld(s *schedule.Scheduler) {
	w := &wholeWorld{s: s, ensured: map[string]bool{}, sync: time.Duration(s.Rand.IntN(2)) * 20 * time.Minute}
	w.wholeEvery = []time.Duration{time.Minute, time.Hour}[s.Rand.IntN(2)]
	s.Lengthen(3)
	rotation := rotations[s.Rand.IntN(len(rotations))]
	w.events = newEvents(s)
	w.platform = newPlatform(s, append(w.events.options(), dispensarytest.WithBehavior(rotation))...)
	w.platform.tell = w.tell
	w.events.listen(w.platform)
	w.events.database = "the inbox"
	w.tokens = newTokens(s, w.platform, rotation)
	w.tokens.name, w.tokens.connects, w.tokens.pause = "the token store", true, 5*time.Minute
	w.catalog = newCatalog(s, w.platform)
	w.catalog.announce = func(e model.Event) { w.events.happened(e, nil) }
	product := w.platform.Products.All()[0]
	w.catalog.kept, w.variant, w.author = product.ID, product.VariantIDs[0], w.platform.Practitioners.All()[0].ID
	w.tokens.age()
	names := []string{"replica 1", "replica 2"}
	for _, name := range names {
		s.Process(name, max(0, s.Rand.IntN(4)-1), s.Rand.IntN(2), w.start)
	}
	w.tokens.actions()
	w.events.actions()
	w.events.rotateSecret()
	w.events.setClocks(names)
	w.catalog.actions()
	w.platform.giveUpOnWrites(s)
	s.Action("all databases are unreachable", 1, func() bool { return !w.tokens.db.down.Load() && !w.events.table.down.Load() }, func() {
		w.tokens.db.down.Store(true)
		w.events.table.down.Store(true)
		s.Disturb()
	})
	w.promises(len(names))
}

// start starts a replica with all parts.
func (w *wholeWorld) start(p *schedule.Process) {
	all := w.tokens.accounts(p, killable{w.platform.seenBy(p)})
	for _, user := range w.tokens.users {
		go w.tokens.use(p, all, user)
	}
	if len(w.tokens.keys) == 0 { // an encrypted token has a random due time
		go func() { _ = all.KeepFresh(p.Context(), tokens.KeepFreshPolicy{Interval: 7 * time.Minute}) }()
	}
	client, err := all.Client(p.Context(), w.tokens.users[0])
	if err != nil {
		panic(err)
	}
	syncer := w.catalog.syncer(p, client, 25)
	go func() {
		time.Sleep(w.sync)
		w.catalog.sync(p, syncer, 10*time.Minute)
	}()
	w.reconcile(p, all, w.events.receive(p, false, 1, w.handler(all, syncer)))
}

// reconcile runs a replica's reconciler over the clinics of its users.
func (w *wholeWorld) reconcile(p *schedule.Process, all *accounts.Accounts, r *receiver) {
	environment := w.platform.Site().Environment
	clinics, err := reconcile.New(reconcile.Config{
		Environment: environment, Inbox: r.inbox, Overlap: time.Minute, Logger: r.logger, Now: w.events.clockOf(p.Name),
		Groups:   []events.Group{events.GroupProducts, events.GroupPatients, events.GroupTreatmentPlans},
		Parallel: 1, WholeEvery: w.wholeEvery,
		List: func(ctx context.Context, after string, limit int) ([]string, error) {
			return all.Clinics(ctx, environment, after, limit)
		},
		Open: func(ctx context.Context, id string, budget api.Limiter) (reconcile.Clinic, error) {
			one, err := all.ForClinic(ctx, environment, id, accounts.ClinicOptions{Limiter: budget})
			if err != nil {
				return reconcile.Clinic{}, err
			}
			return reconcile.Clinic{Events: one.Client.Events, Integrations: one.Integrations}, nil
		},
	})
	if err != nil {
		panic(err)
	}
	go func() {
		time.Sleep(time.Minute) // start after the first webhooks
		_ = clinics.Loop(p.Context(), 40*time.Minute)
	}()
}

// handler returns the event handler of a replica.
func (w *wholeWorld) handler(all *accounts.Accounts, syncer *catalogsync.Syncer) webhook.HandlerFunc {
	patient := func(ctx context.Context, e events.PatientEvent) error {
		return w.ensurePlan(ctx, all, e.ClinicID, e.Object.ID)
	}
	plan := func(ctx context.Context, e events.TreatmentPlanEvent) error {
		one, err := all.ForClinic(ctx, w.platform.Site().Environment, e.ClinicID, accounts.ClinicOptions{})
		if err != nil {
			return err
		}
		_, err = one.Client.TreatmentPlans.Get(ctx, e.Object.ID)
		return err
	}
	var router webhook.Router
	router.OnPatientCreated(patient)
	router.OnPatientUpdated(patient)
	router.OnTreatmentPlanCreated(plan)
	router.OnProductCreated(syncer.HandleEvent)
	router.OnProductUpdated(syncer.HandleEvent)
	return router.Dispatch
}

// ensurePlan ensures the plan of a patient, as a user of the clinic.
func (w *wholeWorld) ensurePlan(ctx context.Context, all *accounts.Accounts, clinicID, patientID string) error {
	one, err := all.ForClinic(ctx, w.platform.Site().Environment, clinicID, accounts.ClinicOptions{})
	if err != nil {
		return err
	}
	patient, err := one.Client.Clinic.Patients.Get(ctx, patientID)
	if err != nil {
		return err
	}
	_, _, err = one.Client.TreatmentPlans.Ensure(ctx, patient.ID, treatmentplans.PlanCreate{
		PractitionerID: w.author, State: treatmentplans.StateActive, Metadata: clinic.Metadata{ID: planOf(patient.ID)},
		Recommendations: []treatmentplans.Recommendation{{VariantID: w.variant, UnitsToPurchase: 1}},
	})
	plans := w.plans()[planOf(patientID)]
	switch {
	case plans > 1 && w.s.Doubled() > 0: // doubled by the network, and Ensure reports it
		err = nil
	case err == nil && plans == 0:
		w.s.Failf("the plan of patient %s is ensured but does not exist", patientID[:8])
	}
	if err == nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.ensured[patientID] = true
	}
	return err
}

func planOf(patientID string) string { return "plan-of-" + patientID }

// plans counts the platform's plans by their metadata IDs.
func (w *wholeWorld) plans() map[string]int {
	count := map[string]int{}
	for _, p := range w.platform.Plans.All() {
		if p.MetadataID != "" {
			count[p.MetadataID]++
		}
	}
	return count
}

// promises adds the invariants of the parts. In addition, each patient must have one plan.
func (w *wholeWorld) promises(replicas int) {
	w.tokens.promises(replicas)
	w.events.promises()
	w.catalog.promises()
	w.platform.onRequest = func(r *http.Request, _ []byte, _ int) {
		if r.Method != http.MethodPost {
			return
		}
		for id, n := range w.plans() {
			if n > 1 && w.s.Doubled() == 0 {
				w.s.Failf("%d records instead of one: %s", n, id[:16])
			}
		}
	}
	w.s.InTheEnd(func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, id := range w.events.patients {
			if !w.ensured[id] {
				return fmt.Errorf("no plan is ensured for patient %s", id[:8])
			}
		}
		return nil
	})
}

var uuids = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// tell returns the name of a request in the story.
func (w *wholeWorld) tell(r *http.Request, body []byte) string {
	name := tell(r, body)
	if id, ok := strings.CutPrefix(r.URL.Path, "/api/events/"); ok && uuids.MatchString(id) {
		name = strings.ReplaceAll(name, id, w.events.name(id))
	}
	if strings.Contains(r.URL.Path, "/catalog") || strings.Contains(r.URL.Path, "/metadata") {
		name += " " + r.URL.RawQuery
	}
	return uuids.ReplaceAllStringFunc(name, func(id string) string { return id[:8] })
}
