package dispensarytest

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/view"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/testkit/testsize"
)

var walkSeed = flag.Uint64("walk.seed", 0, "seed of the random walk; 0 takes one from the time")

const walkLength = 400 // steps of one walk

// TestPlatformAgreesWithModel walks at random: API calls, actions of the platform's
// people, and time passing. Every response has to be the one that the model predicts. A
// walk that fails logs its last steps, and its seed repeats it:
//
//	go test ./dispensarytest -run TestPlatformAgreesWithModel -walk.seed 17
func TestPlatformAgreesWithModel(t *testing.T) {
	t.Parallel()
	seed := *walkSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d", seed)
	for n := range testsize.Of(20_000, 100_000) / testsize.UnderRace(5, 1) / walkLength {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			w := newWalk(t, rand.New(rand.NewPCG(seed, uint64(n))), []Behavior{RefreshRotationNone, RefreshRotationGrace, RefreshRotationImmediate}[n%3])
			defer func() {
				if t.Failed() {
					t.Logf("seed %d, the last of %d steps:\n%s", seed, len(w.trail), strings.Join(w.trail[max(0, len(w.trail)-40):], "\n"))
				}
			}()
			for range walkLength {
				w.step()
			}
		})
	}
}

// walk is a platform, and a model of it that knows nothing of the platform's code.
type walk struct {
	*browser
	dice     *rand.Rand
	rotation Behavior
	trail    []string

	now                time.Time
	scopes             []string // of the application
	activated, revoked bool     // the clinic key
	practitioner       string
	variants           []string
	grant              *walkGrant // of the latest call
	patients           []*walkPatient
	plans              []*walkPlan
	events             []*walkEvent
	tokens             []*walkToken
	refreshes          []*walkRefresh
	codes              []*walkCode
}

type walkPatient struct {
	id, email, metadata string
	orders              int
	cart                *walkPlan // as it was at the checkout
}

type walkPlan struct {
	id                      string
	patient                 *walkPatient // nil after a link without one
	state, metadata         string
	units                   []any // of the lines
	outside                 bool  // not made through the API
	created, updated, start time.Time
}

type walkEvent struct {
	kind, about string
	at          time.Time
}

type walkGrant struct {
	scopes []string
	ended  bool
}

type walkToken struct {
	value      string
	grant      *walkGrant
	expires    time.Time
	supersedes *walkRefresh
}

type walkRefresh struct {
	value string
	grant *walkGrant
	ended bool
}

type walkCode struct {
	value   string
	scopes  []string
	expires time.Time
	gone    bool
}

func newWalk(t *testing.T, dice *rand.Rand, rotation Behavior) *walk {
	scopes := []string{"catalog:read", "clinic:read", "clinic:write", "patients:read", "patients:write", "patients:order_history"}
	fake := New(t, WithInMemory(), WithClock(frozen()), WithJournalLimit(1), WithBehavior(rotation), WithScopes(scopes...))
	w := &walk{browser: &browser{t: t, fake: fake}, dice: dice, rotation: rotation, now: fake.Clock().Now(), scopes: scopes}
	for _, p := range fake.Patients.All() {
		w.patients = append(w.patients, &walkPatient{id: p.ID, email: p.Email, metadata: p.MetadataID})
	}
	for i, p := range fake.Plans.All() {
		plan := &walkPlan{id: p.ID, state: p.State, outside: p.Outside, created: p.CreatedAt, updated: p.UpdatedAt, start: p.AvailableAt, patient: w.patients[i]}
		for _, r := range p.Recommendations {
			plan.units = append(plan.units, float64(r.UnitsToPurchase))
		}
		w.plans, w.patients[i].orders = append(w.plans, plan), 1
	}
	for _, p := range fake.Products.All()[:3] {
		w.variants = append(w.variants, p.VariantIDs[0])
	}
	w.practitioner = fake.Users()[0].ID
	return w
}

// walkMoves are the kinds of steps, by how often each is taken.
var walkMoves = func() (moves []func(*walk)) {
	for _, kind := range []struct {
		times int
		moves []func(*walk)
	}{
		{6, []func(*walk){(*walk).issue, (*walk).pass, (*walk).createPlan}},
		{4, []func(*walk){(*walk).createPatient, (*walk).updatePatient, (*walk).readPatients, (*walk).changePlan, (*walk).readPlan, (*walk).listEvents, (*walk).getEvent, (*walk).refresh, (*walk).act}},
		{3, []func(*walk){(*walk).findMetadata, (*walk).redeem, (*walk).register, (*walk).writePlan, (*walk).order}},
		{2, []func(*walk){(*walk).authorize, (*walk).checkOut, (*walk).readClinic, (*walk).edit, (*walk).link}},
		{1, []func(*walk){(*walk).revoke, (*walk).extend, (*walk).expire, (*walk).turnKey}},
	} {
		for range kind.times {
			moves = append(moves, kind.moves...)
		}
	}
	return moves
}()

func (w *walk) step() {
	walkMoves[w.dice.IntN(len(walkMoves))](w)
	require.Equal(w.t, len(w.events), int(w.fake.store.World.Numbers["event"]), "events")
}

// one picks a row, rather one of the latest; it is nil for an unknown row.
func one[T any](w *walk, rows []*T) *T {
	switch dice := w.dice.IntN(20); {
	case dice == 0 || len(rows) == 0:
		return nil
	case dice < 6:
		return rows[w.dice.IntN(len(rows))]
	}
	return rows[len(rows)-1-w.dice.IntN(min(5, len(rows)))]
}

// idOf is the id of a row, or an unknown one.
func idOf[T any](row *T, id func(*T) string) string {
	if row == nil {
		return "unknown"
	}
	return id(row)
}

func patientID(p *walkPatient) string { return p.id }
func planID(p *walkPlan) string       { return p.id }

// odds is true once in n times.
func (w *walk) odds(n int) bool { return w.dice.IntN(n) == 0 }

// address is one of a few, so that they collide, sometimes in capital letters.
func (w *walk) address() string {
	email := fmt.Sprintf("p%d@example.org", w.dice.IntN(40))
	if w.odds(5) {
		return strings.ToUpper(email)
	}
	return email
}

func (w *walk) metadataID() string { return fmt.Sprintf("ehr-%d", w.dice.IntN(6)) }

func (w *walk) taken(email string, except *walkPatient) bool {
	return slices.ContainsFunc(w.patients, func(p *walkPatient) bool { return p != except && strings.EqualFold(p.email, email) })
}

func (g *walkGrant) has(scope string) bool {
	group, _, _ := strings.Cut(scope, ":")
	return slices.Contains(g.scopes, scope) || slices.Contains(g.scopes, group)
}

// call sends a request with a token, mostly the latest, and sometimes with a clinic key.
// It returns false if the platform has to reject it for one of these or the scope.
func (w *walk) call(method, scope, path string, body any) (answer, bool) {
	w.t.Helper()
	var token *walkToken
	if len(w.tokens) > 0 {
		token = w.tokens[len(w.tokens)-1]
	}
	if w.odds(16) {
		token = one(w, w.tokens)
	}
	w.token, w.key = idOf(token, func(t *walkToken) string { return t.value }), ""
	switch w.dice.IntN(24) {
	case 1:
		w.key = w.fake.ClinicKey()
	case 2:
		w.key = "wrong"
	}
	status := w.enter(token, scope)
	a := w.send(method, path, body)
	w.trail = append(w.trail, fmt.Sprintf("%s %s %v %q → %d", method, path, body, w.key, a.status))
	if status != 0 {
		require.Equal(w.t, status, a.status, a.text)
		return a, false
	}
	w.grant = token.grant
	return a, true
}

// enter returns the status of a rejection, or 0.
func (w *walk) enter(token *walkToken, scope string) int {
	if token == nil || token.grant.ended || !w.now.Before(token.expires) {
		return http.StatusUnauthorized
	}
	if token.supersedes != nil {
		token.supersedes.ended = true
	}
	switch {
	case w.key == "wrong", w.key != "" && w.revoked:
		return http.StatusUnauthorized
	case w.key != "" && !w.activated:
		w.activated = true
		w.emit("clinic_key.activated", "integration")
	}
	if scope != "" && !token.grant.has(scope) {
		return http.StatusForbidden
	}
	return 0
}

// emit predicts an event, and returns its time: the events of one object are apart.
func (w *walk) emit(kind, about string) time.Time {
	e := &walkEvent{kind: kind, about: about, at: w.now}
	for _, before := range w.events {
		if before.about == about && !e.at.After(before.at) {
			e.at = before.at.Add(time.Millisecond)
		}
	}
	w.events = append(w.events, e)
	return e.at
}

// happened compares the event of an action with the prediction, and returns its time.
func (w *walk) happened(kind, about string, e model.Event, err error) time.Time {
	w.t.Helper()
	require.NoError(w.t, err)
	at := w.emit(kind, about)
	require.Equal(w.t, kind, e.Type)
	require.True(w.t, e.CreatedAt.Equal(at), "%s, not %s", e.CreatedAt, at)
	return at
}

func (w *walk) createPatient() {
	body := map[string]any{"email": w.address(), "first_name": "Walk", "last_name": "In", "metadata": map[string]any{"id": w.metadataID()}}
	if w.odds(8) {
		delete(body, "last_name")
	}
	p := &walkPatient{email: body["email"].(string), metadata: body["metadata"].(map[string]any)["id"].(string)}
	switch a, allowed := w.call("POST", "patients:write", "/clinic/patients", body); {
	case !allowed:
	case body["last_name"] == nil || w.taken(p.email, nil):
		a.ok(422)
	default:
		p.id = a.ok(201, "patient", "id").(string)
		w.patients = append(w.patients, p)
		w.seesPatient(a, p)
	}
}

func (w *walk) updatePatient() {
	p := one(w, w.patients)
	email, metadata := w.address(), w.metadataID()
	switch a, allowed := w.call("PATCH", "patients:write", "/clinic/patients/"+idOf(p, patientID), map[string]any{"email": email, "metadata": map[string]any{"id": metadata}}); {
	case !allowed:
	case p == nil:
		a.ok(404)
	case w.taken(email, p):
		a.ok(422)
	default:
		p.email, p.metadata = email, metadata
		w.seesPatient(a, p)
	}
}

func (w *walk) readPatients() {
	if w.odds(3) {
		if a, allowed := w.call("GET", "patients:read", "/clinic/patients", nil); allowed {
			require.EqualValues(w.t, len(w.patients), a.ok(200, "meta", "total_count"))
		}
		return
	}
	p := one(w, w.patients)
	switch a, allowed := w.call("GET", "patients:read", "/clinic/patients/"+idOf(p, patientID), nil); {
	case !allowed:
	case p == nil:
		a.ok(404)
	default:
		w.seesPatient(a, p)
	}
}

func (w *walk) seesPatient(a answer, p *walkPatient) {
	w.t.Helper()
	got := a.body["patient"].(map[string]any)
	var metadata any
	if p.metadata != "" {
		metadata = p.metadata
	}
	require.Equal(w.t, []any{p.id, p.email, metadata}, []any{got["id"], got["email"], got["metadata"].(map[string]any)["id"]})
}

func (w *walk) readClinic() {
	a, allowed := w.call("GET", "clinic:read", "/clinic", nil)
	if !allowed {
		return
	}
	clinic := a.object(200, "clinic")
	require.EqualValues(w.t, len(w.patients), clinic["patient_count"])
	require.Equal(w.t, w.activated, clinic["integration_activated_at"] != nil)
}

func (w *walk) findMetadata() {
	id, kind, found := w.metadataID(), []string{"patient", "treatment_plan"}[w.dice.IntN(2)], 0
	a, allowed := w.call("GET", "patients:read", "/clinic/metadata?id="+id+"&type="+kind, nil)
	if !allowed {
		return
	}
	for _, p := range w.patients {
		if kind == "patient" && p.metadata == id {
			found++
		}
	}
	for _, p := range w.plans {
		if kind == "treatment_plan" && p.metadata == id && w.reads(p) {
			found++
		}
	}
	require.EqualValues(w.t, found, a.ok(200, "meta", "total_count"))
}

// reads reports whether the latest caller may see a plan.
func (w *walk) reads(p *walkPlan) bool {
	return !p.outside || w.grant.has("patients:treatment_plan_history")
}

// planCall calls about one plan. It returns nil if the call has to be rejected.
func (w *walk) planCall(method, scope, suffix string, body any) (answer, *walkPlan) {
	w.t.Helper()
	p := one(w, w.plans)
	switch a, allowed := w.call(method, scope, "/clinic/treatment_plans/"+idOf(p, planID)+suffix, body); {
	case !allowed:
		return a, nil
	case p == nil:
		a.ok(404)
		return a, nil
	case !w.reads(p):
		a.ok(403)
		return a, nil
	default:
		return a, p
	}
}

func (w *walk) seesPlan(a answer, p *walkPlan) {
	w.t.Helper()
	got := a.body["treatment_plan"].(map[string]any)
	units := []any(nil)
	for _, r := range got["recommendations"].([]any) {
		units = append(units, r.(map[string]any)["units_to_purchase"])
	}
	var start any
	if !p.start.IsZero() {
		start = p.start.Format(time.DateOnly)
	}
	require.Equal(w.t, []any{p.id, p.state, p.units, view.Time(p.created), view.Time(p.updated), start},
		[]any{got["id"], got["state"], units, got["created_at"], got["updated_at"], got["available_at"]})
}

// lines are recommendations of one to three variants.
func (w *walk) lines() (units, body []any) {
	for i := range 1 + w.dice.IntN(3) {
		n := float64(1 + w.dice.IntN(4))
		units = append(units, n)
		body = append(body, map[string]any{"variant_id": w.variants[i], "units_to_purchase": n})
	}
	return units, body
}

// addPlan stores a new plan.
func (w *walk) addPlan(p *walkPlan) {
	p.created, p.updated = w.now, w.now
	if p.state == "active" {
		p.start = w.now
	}
	w.plans = append(w.plans, p)
}

func (w *walk) createPlan() {
	patient := one(w, w.patients)
	p := &walkPlan{patient: patient, state: []string{"active", "draft"}[w.dice.IntN(2)], metadata: w.metadataID()}
	units, body := w.lines()
	p.units = units
	a, allowed := w.call("POST", "clinic:write", "/clinic/patients/"+idOf(patient, patientID)+"/treatment_plans", map[string]any{
		"practitioner_id": w.practitioner, "recommendations": body, "state": p.state, "metadata": map[string]any{"id": p.metadata},
	})
	switch {
	case !allowed:
	case !w.grant.has("patients:read"):
		a.ok(403)
	case patient == nil:
		a.ok(404)
	default:
		p.id = a.ok(201, "treatment_plan", "id").(string)
		w.addPlan(p)
		w.seesPlan(a, p)
	}
}

// link makes a draft that has neither patient nor lines.
func (w *walk) link() {
	body := map[string]any{"treatment_plan": map[string]any{"practitioner_id": w.practitioner}}
	if a, allowed := w.call("POST", "clinic:write", "/clinic/dynamic_links/treatment_plans", body); allowed {
		w.addPlan(&walkPlan{id: a.ok(200, "dynamic_links", "treatment_plan", "id").(string), state: "draft"})
	}
}

func (w *walk) readPlan() {
	if w.odds(2) {
		patient, found := one(w, w.patients), 0
		a, allowed := w.call("GET", "patients:read", "/clinic/patients/"+idOf(patient, patientID)+"/treatment_plans", nil)
		switch {
		case !allowed:
		case patient == nil:
			a.ok(404)
		default:
			for _, p := range w.plans {
				if p.patient == patient && w.reads(p) {
					found++
				}
			}
			require.EqualValues(w.t, found, a.ok(200, "meta", "total_count"))
		}
		return
	}
	if a, p := w.planCall("GET", "patients:read", "", nil); p != nil {
		w.seesPlan(a, p)
	}
}

// turn changes a plan as a verb does, if the plan's state allows it.
func (w *walk) turn(p *walkPlan, verb string, units []any) bool {
	switch {
	case verb == "activate" && p.state == "draft" && p.patient != nil && len(p.units) > 0:
		p.state, p.start = "active", w.now
	case verb == "cancel" && p.state == "active":
		p.state, p.units = "cancelled", nil
	case verb == "update" && p.state != "cancelled":
		p.units = units
	default:
		return false
	}
	if w.now.After(p.updated) { // it may have the time of an event that is later
		p.updated = w.now
	}
	return true
}

var verbs = []string{"activate", "activate", "cancel", "update"}

func (w *walk) changePlan() {
	verb, suffix := verbs[w.dice.IntN(len(verbs))], ""
	units, body := w.lines()
	var sent any = map[string]any{"recommendations": body}
	if verb != "update" {
		suffix, sent = "/"+verb, nil
	}
	a, p := w.planCall("PATCH", "clinic:write", suffix, sent)
	switch {
	case p == nil:
	case !w.turn(p, verb, units):
		a.ok(422)
	default:
		a.ok(200)
		w.seesPlan(a, p)
	}
}

func (w *walk) checkOut() {
	switch a, p := w.planCall("POST", "clinic:write", "/in_office_checkout", nil); {
	case p == nil:
	case p.state != "active":
		a.ok(422)
	default:
		a.ok(201)
		copied := *p
		p.patient.cart = &copied
	}
}

// did notes an action of the platform's people.
func (w *walk) did(format string, args ...any) {
	w.trail = append(w.trail, fmt.Sprintf(format, args...))
}

func (w *walk) register() {
	email := w.address()
	w.did("register %s", email)
	p, e, err := w.fake.Patients.Register(model.NewPatient{Email: email})
	if w.taken(email, nil) {
		require.ErrorIs(w.t, err, model.ErrInvalid)
		return
	}
	w.happened("patient.created", p.ID, e, err)
	w.patients = append(w.patients, &walkPatient{id: p.ID, email: email})
}

func (w *walk) edit() {
	p, email := one(w, w.patients), w.address()
	w.did("edit %s", email)
	_, e, err := w.fake.Patients.Edit(idOf(p, patientID), model.PatientChange{Email: &email})
	switch {
	case p == nil:
		require.ErrorIs(w.t, err, model.ErrNotFound)
	case w.taken(email, p):
		require.ErrorIs(w.t, err, model.ErrInvalid)
	default:
		w.happened("patient.updated", p.id, e, err)
		p.email = email
	}
}

func (w *walk) writePlan() {
	patient, draft := one(w, w.patients), w.odds(2)
	w.did("write a plan, draft %t", draft)
	made, e, err := w.fake.Plans.Create(idOf(patient, patientID), model.NewPlan{Draft: draft})
	if patient == nil {
		require.ErrorIs(w.t, err, model.ErrNotFound)
		return
	}
	p := &walkPlan{id: made.ID, patient: patient, state: "active", units: []any{1.0}, outside: true}
	if draft {
		require.NoError(w.t, err)
		require.Empty(w.t, e.ID)
		p.state = "draft"
		w.addPlan(p)
		return
	}
	w.addPlan(p)
	p.updated = w.happened("treatment_plan.created", p.id, e, err)
}

// act changes a plan as a practitioner does on the platform.
func (w *walk) act() {
	p, verb := one(w, w.plans), verbs[w.dice.IntN(len(verbs))]
	w.did("%s plan %s", verb, idOf(p, planID))
	kind := "treatment_plan.updated"
	var e model.Event
	var err error
	switch verb {
	case "activate":
		kind = "treatment_plan.created"
		_, e, err = w.fake.Plans.Activate(idOf(p, planID))
	case "cancel":
		_, e, err = w.fake.Plans.Cancel(idOf(p, planID))
	default:
		_, e, err = w.fake.Plans.Update(idOf(p, planID), model.PlanChange{PersonalMessage: new("Note")})
	}
	switch {
	case p == nil:
		require.ErrorIs(w.t, err, model.ErrNotFound)
	case !w.turn(p, verb, p.units):
		require.Error(w.t, err)
	default:
		p.updated = w.happened(kind, p.id, e, err)
	}
}

func (w *walk) order() {
	patient, p := one(w, w.patients), one(w, w.plans)
	in, units := model.NewOrder{}, []any{1.0}
	switch {
	case w.odds(2) || p == nil:
		p = nil
		if patient != nil && patient.cart != nil {
			units = patient.cart.units
		}
	case !w.odds(4) && p.patient != nil: // mostly the plan's own patient
		patient = p.patient
	}
	if p != nil {
		in.PlanIDs, units = []string{p.id}, p.units
	}
	w.did("order of %v", in.PlanIDs)
	o, e, err := w.fake.Orders.Place(idOf(patient, patientID), in)
	switch {
	case patient == nil:
		require.ErrorIs(w.t, err, model.ErrNotFound)
	case p != nil && (p.patient != patient || p.state != "active"):
		require.Error(w.t, err)
	default:
		w.happened("order.placed", o.ID, e, err)
		patient.cart, patient.orders = nil, patient.orders+1
		var bought []any
		for _, l := range o.Lines {
			bought = append(bought, float64(l.Quantity))
		}
		require.Equal(w.t, units, bought)
		if a, allowed := w.call("GET", "patients:order_history", "/clinic/orders?page[size]=1&patient_id="+patient.id, nil); allowed {
			require.EqualValues(w.t, patient.orders, a.ok(200, "meta", "total_count"))
		}
	}
}

func (w *walk) turnKey() {
	if w.odds(2) {
		w.did("revoke the clinic key")
		e, err := w.fake.Clinics.RevokeKey(w.fake.ClinicKey())
		if w.revoked {
			require.Error(w.t, err)
			return
		}
		w.happened("clinic_key.revoked", "integration", e, err)
		w.revoked = true
		return
	}
	w.did("activate the clinic key")
	e, err := w.fake.Clinics.ActivateKey(w.fake.ClinicKey())
	if w.activated && !w.revoked {
		require.ErrorIs(w.t, err, model.ErrState)
		return
	}
	w.happened("clinic_key.activated", "integration", e, err)
	w.activated, w.revoked = true, false
}

var eventGroups = []struct{ path, prefix, scope string }{
	{"clinic_keys", "clinic_key.", "clinic:read"}, {"orders", "order.", "patients:order_history"},
	{"patients", "patient.", "patients:read"}, {"treatment_plans", "treatment_plan.", "patients:treatment_plan_history"},
}

func (w *walk) keeps(e *walkEvent) bool { return w.now.Sub(e.at) <= store.Retention }

func (w *walk) listEvents() {
	group, day, query := eventGroups[w.dice.IntN(len(eventGroups))], w.now.AddDate(0, 0, -w.dice.IntN(3)).Format(time.DateOnly), ""
	if w.odds(2) {
		query = "?created_at=" + day
	}
	a, allowed := w.call("GET", group.scope, "/events/"+group.path+query, nil)
	if !allowed {
		return
	}
	found := 0
	for _, e := range w.events {
		if strings.HasPrefix(e.kind, group.prefix) && w.keeps(e) && (query == "" || e.at.Format(time.DateOnly) == day) {
			found++
		}
	}
	require.EqualValues(w.t, found, a.ok(200, "meta", "total_count"))
}

func (w *walk) getEvent() {
	e := one(w, w.events)
	id := idOf(e, func(e *walkEvent) string {
		return w.fake.store.World.ID("event", uint64(slices.Index(w.events, e)+1))
	})
	a, allowed := w.call("GET", "", "/events/"+id, nil)
	switch {
	case !allowed:
	case e == nil || !w.keeps(e):
		a.ok(404)
	default:
		group := slices.IndexFunc(eventGroups, func(g struct{ path, prefix, scope string }) bool { return strings.HasPrefix(e.kind, g.prefix) })
		if !w.grant.has(eventGroups[group].scope) {
			a.ok(403)
			return
		}
		require.Equal(w.t, []any{e.kind, view.Time(e.at)}, []any{a.ok(200, "event", "type"), a.ok(200, "event", "created_at")})
	}
}

// pair adds an access token and its refresh token, unless one that exists stays.
func (w *walk) pair(g *walkGrant, access, refresh any, supersedes *walkRefresh) {
	w.tokens = append(w.tokens, &walkToken{value: access.(string), grant: g, expires: w.now.Add(2 * time.Hour), supersedes: supersedes})
	w.refreshes = append(w.refreshes, &walkRefresh{value: refresh.(string), grant: g})
}

func (w *walk) issue() {
	scopes := [][]string{{"catalog:read"}, {"clinic:write", "patients:read"}, {"patients"}, {"clinic"}, nil, {"catalog:read", "clinic", "patients"}}[min(w.dice.IntN(16), 5)]
	w.did("issue a token for %q", scopes)
	token := w.fake.Tokens.Issue(model.User{}, scopes...)
	if scopes == nil {
		scopes = slices.Clone(w.scopes)
	}
	w.pair(&walkGrant{scopes: scopes}, token.AccessToken, token.RefreshToken, nil)
}

func (w *walk) authorize() {
	w.did("authorize")
	w.codes = append(w.codes, &walkCode{value: w.fake.tokens.NewCode(w.fake.Users()[0]), scopes: slices.Clone(w.scopes), expires: w.now.Add(10 * time.Minute)})
}

func (w *walk) redeem() {
	c := one(w, w.codes)
	a := w.exchange(idOf(c, func(c *walkCode) string { return c.value }))
	w.did("redeem a code → %d", a.status)
	if c == nil || c.gone || !w.now.Before(c.expires) {
		a.ok(400)
		return
	}
	c.gone = true
	w.pair(&walkGrant{scopes: c.scopes}, a.ok(200, "oauth", "access_token"), a.ok(200, "oauth", "refresh_token"), nil)
}

func (w *walk) refresh() {
	r := one(w, w.refreshes)
	a := w.renew(idOf(r, func(r *walkRefresh) string { return r.value }))
	w.did("refresh → %d", a.status)
	if r == nil || r.ended || r.grant.ended {
		a.ok(400)
		return
	}
	access, refresh := a.ok(200, "oauth", "access_token"), a.ok(200, "oauth", "refresh_token")
	switch w.rotation {
	case RefreshRotationGrace:
		w.pair(r.grant, access, refresh, r)
	case RefreshRotationImmediate:
		r.ended = true
		w.pair(r.grant, access, refresh, nil)
	default:
		require.Equal(w.t, r.value, refresh)
		w.tokens = append(w.tokens, &walkToken{value: access.(string), grant: r.grant, expires: w.now.Add(2 * time.Hour)})
	}
}

func (w *walk) revoke() {
	token, refresh := one(w, w.tokens), one(w, w.refreshes)
	value := idOf(token, func(t *walkToken) string { return t.value })
	if byRefresh := w.odds(2); byRefresh {
		token, value = nil, idOf(refresh, func(r *walkRefresh) string { return r.value })
		if refresh != nil && !refresh.ended {
			refresh.grant.ended = true
		}
	}
	if token != nil {
		token.grant.ended = true
	}
	w.did("revoke a token")
	w.post("/oauth/revoke", w.credentials(map[string]any{"token": value})).ok(200)
}

// extend ends all consents and codes, once.
func (w *walk) extend() {
	scope := "clinic:read"
	if w.odds(4) {
		scope = "patients:treatment_plan_history"
	}
	w.did("extend the scopes by %s", scope)
	require.NoError(w.t, w.fake.Tokens.ExtendScopes(scope))
	if slices.Contains(w.scopes, scope) {
		return
	}
	w.scopes = append(w.scopes, scope)
	for _, t := range w.tokens {
		t.grant.ended = true
	}
	for _, r := range w.refreshes {
		r.grant.ended = true
	}
	for _, c := range w.codes {
		c.gone = true
	}
}

func (w *walk) expire() {
	token := one(w, w.tokens)
	w.did("expire a token")
	err := w.fake.Tokens.Expire(idOf(token, func(t *walkToken) string { return t.value }))
	if token == nil {
		require.Error(w.t, err)
		return
	}
	token.expires = w.now
}

func (w *walk) pass() {
	passes := []time.Duration{
		time.Second, time.Minute, 5 * time.Minute, 10*time.Minute - time.Second, 10 * time.Minute, 11 * time.Minute,
		time.Hour, 2*time.Hour - time.Second, 2 * time.Hour, 3 * time.Hour, 24 * time.Hour, 24 * time.Hour, 10 * 24 * time.Hour, 30 * 24 * time.Hour,
	}
	by := passes[w.dice.IntN(4)]
	if w.odds(3) {
		by = passes[w.dice.IntN(len(passes))]
	}
	w.did("%s pass", by)
	w.now = w.now.Add(by)
	w.fake.Clock().Advance(by)
}
