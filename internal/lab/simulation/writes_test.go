package simulation

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/lab/schedule"
	"github.com/dispensary-go/dispensary/internal/testkit/logtest"
	"github.com/dispensary-go/dispensary/treatmentplans"
)

// TestWrites checks that the client never repeats a write that may have been applied, and that
// Ensure creates one record per key.
func TestWrites(t *testing.T) { explore(t, newWriteWorld, 2000, 50_000) }

// writeWorld is a platform and replicas that write to it.
type writeWorld struct {
	s         *schedule.Scheduler
	platform  *platform
	patientID string
	author    string
	variantID string

	mu      sync.Mutex
	sent    map[string]int  // number of requests to the platform by subject
	doubled map[string]bool // subjects of requests doubled by the network
	created map[string]int  // number of records created by Ensure, by key
	calls   int
	ensured map[string]bool // ensured records during the recovery, by replica and key
}

func newWriteWorld(s *schedule.Scheduler) {
	w := &writeWorld{s: s, sent: map[string]int{}, doubled: map[string]bool{}, created: map[string]int{}, ensured: map[string]bool{}}
	w.platform = newPlatform(s)
	w.platform.onRequest = w.arrived
	w.patientID, w.author = w.platform.Patients.All()[0].ID, w.platform.Practitioners.All()[0].ID
	w.variantID = w.platform.Products.All()[0].VariantIDs[0]
	for i := range 2 {
		name := fmt.Sprintf("replica %d", i+1)
		s.Process(name, max(0, s.Rand.IntN(3)-1), s.Rand.IntN(2), func(p *schedule.Process) { w.start(p) })
	}
	w.platform.giveUpOnWrites(s)
	s.SettledWhen("every record is ensured by every replica", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.ensured) == 3*s.Processes()
	})
	s.InTheEnd(w.countRecords)
}

// start starts a replica with four users. One creates patients, two ensure a patient shared by both
// replicas, and one ensures a plan of this replica.
func (w *writeWorld) start(p *schedule.Process) {
	logger := logtest.NewLogger(&w.platform.logs)
	client := w.platform.Client(model.User{}, dispensary.WithLogger(logger), dispensary.WithTokenSource(w.platform),
		dispensary.WithTransport(p.Transport(gateway{w.platform}, w.tell)))
	go w.create(p, client)
	ensure := func(key string, call func(ctx context.Context) (bool, error)) {
		go w.repeat(p, key, call)
	}
	patient := func(ctx context.Context) (bool, error) {
		_, created, err := client.Clinic.Patients.Ensure(ctx, clinic.PatientCreate{
			FirstName: canary, LastName: canary, Email: "shared@example.com",
			SendWelcomeEmail: dispensary.Value(false), Metadata: clinic.Metadata{ID: "patient-shared"},
		})
		return created, err
	}
	ensure("patient-shared", patient)
	ensure("patient-shared ", patient) // a second user with the same patient
	plan := "plan-of-" + strings.ReplaceAll(p.Name, " ", "-")
	ensure(plan, func(ctx context.Context) (bool, error) {
		_, created, err := client.TreatmentPlans.Ensure(ctx, w.patientID, treatmentplans.PlanCreate{
			PractitionerID: w.author, State: treatmentplans.StateDraft, Metadata: clinic.Metadata{ID: plan},
			Recommendations: []treatmentplans.Recommendation{{VariantID: w.variantID, UnitsToPurchase: 1}},
		})
		return created, err
	})
}

// repeat ensures a record repeatedly.
func (w *writeWorld) repeat(p *schedule.Process, key string, call func(context.Context) (bool, error)) {
	for {
		p.Step("ensures " + key)
		recovering := w.s.Recovering() > 0
		ctx, cancel := context.WithTimeout(p.Context(), time.Minute)
		created, err := call(ctx)
		cancel()
		if !p.Alive() {
			return
		}
		w.mu.Lock()
		if created && err == nil {
			// After a lost response, a caller does not know who created the record.
			if w.created[strings.TrimSpace(key)]++; w.created[strings.TrimSpace(key)] > 1+w.s.Disturbed() {
				w.s.Failf("%s is created twice", key)
			}
		}
		several := w.s.Doubled() > 0 && errors.As(err, new(*api.EnsureError)) // doubled by the network
		if recovering && (err == nil || several) {
			w.ensured[p.Name+key] = true
		}
		w.mu.Unlock()
		if recovering {
			time.Sleep(time.Minute)
		}
	}
}

// create repeatedly creates a patient, each time another one.
func (w *writeWorld) create(p *schedule.Process, client *dispensary.Client) {
	for {
		p.Step("creates a patient")
		w.mu.Lock()
		w.calls++
		mail := fmt.Sprintf("call-%d@example.com", w.calls)
		w.mu.Unlock()
		ctx, cancel := context.WithTimeout(p.Context(), time.Minute)
		_, err := client.Clinic.Patients.Create(ctx, clinic.PatientCreate{FirstName: canary, LastName: canary, Email: mail, SendWelcomeEmail: dispensary.Value(false)})
		cancel()
		if !p.Alive() {
			return
		}
		w.judge(mail, err)
		if w.s.Recovering() > 0 {
			time.Sleep(time.Hour)
		}
	}
}

// judge checks that an error reports whether the call may have been applied.
func (w *writeWorld) judge(mail string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	exists := w.count(mail) > 0
	switch {
	case err == nil && !exists:
		w.s.Failf("the creation of %s succeeded, but the patient does not exist", mail)
	case err != nil && exists && !errors.Is(err, api.ErrMaybeApplied) && !w.doubled[mail]:
		w.s.Failf("the creation of %s failed definitely, but the patient exists: %w", mail, err)
	}
}

func (w *writeWorld) count(mail string) (n int) {
	for _, p := range w.platform.Patients.All() {
		if p.Email == mail {
			n++
		}
	}
	return n
}

// tell returns the name of a request in the story.
func (w *writeWorld) tell(r *http.Request, body []byte) string {
	name := r.Method + " " + strings.ReplaceAll(strings.TrimPrefix(r.URL.Path, "/api"), w.patientID, "1")
	return name + strings.TrimSuffix(" "+subject(r.URL.RawQuery+string(body)), " ")
}

// subject returns the record that the query or body of a request names, or "".
func subject(text string) string {
	for _, mark := range []string{"plan-of-replica-1", "plan-of-replica-2", "shared"} {
		if strings.Contains(text, mark) {
			return mark
		}
	}
	if at := strings.Index(text, "call-"); at >= 0 {
		name, _, _ := strings.Cut(text[at:], "\"")
		return name
	}
	return ""
}

// arrived is called after the platform's response to a request. A second request with the same
// subject was repeated by the client or doubled by the network.
func (w *writeWorld) arrived(r *http.Request, body []byte, _ int) {
	if r.Method != http.MethodPost {
		return
	}
	about := subject(string(body))
	if !strings.HasPrefix(about, "call-") {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.sent[about]++; w.sent[about] > 1 {
		if w.sent[about] > 2 || w.s.Doubled() == 0 {
			w.s.Failf("the creation of %s was repeated although the first request may have been applied", about)
		}
		w.doubled[about] = true
	}
}

// countRecords checks that there is one record of each key.
func (w *writeWorld) countRecords() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := w.count("shared@example.com"); n != 1 {
		return fmt.Errorf("%d shared patients instead of one", n)
	}
	plans := map[string]int{}
	for _, p := range w.platform.Plans.All() {
		plans[p.MetadataID]++
	}
	for key, n := range plans {
		if key != "" && n > 1 && w.s.Doubled() == 0 {
			return fmt.Errorf("%d plans instead of one with the ID %s", n, key)
		}
	}
	return nil
}
