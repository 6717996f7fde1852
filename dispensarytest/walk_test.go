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

	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
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
			w := newWalk(t, rand.New(rand.NewPCG(seed, uint64(n))), []behavior.Variant{"refresh-rotation=none", behavior.RefreshRotationGrace, behavior.RefreshRotationImmediate}[n%3])
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

// walk is a platform with a model of it. The model is independent of the platform's code.
type walk struct {
	*browser
	dice     *rand.Rand
	rotation behavior.Variant
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
	cart                *walkPlan // as of the checkout
}

type walkPlan struct {
	id                      string
	patient                 *walkPatient // nil after a link without a patient
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

func newWalk(t *testing.T, dice *rand.Rand, rotation behavior.Variant) *walk {
	scopes := []string{"catalog:read", "clinic:read", "clinic:write", "patients:read", "patients:write", "patients:order_history"}
	fake := New(t, WithInMemory(), WithClock(frozen()), WithTuning(Tuning{JournalLimit: 1}), WithBehavior(rotation), WithScopes(scopes...))
	w := &walk{browser: &browser{t: t, fake: fake}, dice: dice, rotation: rotation, now: fake.Clock.Now(), scopes: scopes}
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

// walkMoves are the kinds of steps with their frequencies.
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

// one picks a row, more often a recent one. It returns nil for an unknown row.
func one[T any](w *walk, rows []*T) *T {
	switch dice := w.dice.IntN(20); {
	case dice == 0 || len(rows) == 0:
		return nil
	case dice < 6:
		return rows[w.dice.IntN(len(rows))]
	}
	return rows[len(rows)-1-w.dice.IntN(min(5, len(rows)))]
}

// idOf returns the id of a row, or an unknown id.
func idOf[T any](row *T, id func(*T) string) string {
	if row == nil {
		return "unknown"
	}
	return id(row)
}

func patientID(p *walkPatient) string    { return p.id }
func planID(p *walkPlan) string          { return p.id }
func tokenValue(t *walkToken) string     { return t.value }
func refreshValue(r *walkRefresh) string { return r.value }
func codeValue(c *walkCode) string       { return c.value }

// odds returns true once in n times.
func (w *walk) odds(n int) bool { return w.dice.IntN(n) == 0 }

// address returns one of a few addresses, so that they collide. Some are in capital letters.
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

// call sends a request with a token, mostly the latest, and sometimes with a clinic key. It
// returns false if the platform must reject it because of the token, the key or the scope.
func (w *walk) call(method, scope, path string, body any) (response, bool) {
	w.t.Helper()
	var token *walkToken
	if len(w.tokens) > 0 {
		token = w.tokens[len(w.tokens)-1]
	}
	if w.odds(16) {
		token = one(w, w.tokens)
	}
	w.token, w.key = idOf(token, tokenValue), ""
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

// emit predicts an event and returns its time. No event is earlier than one before it, and events of
// one object have different times.
func (w *walk) emit(kind, about string) time.Time {
	e := &walkEvent{kind: kind, about: about, at: w.now}
	if n := len(w.events); n > 0 && w.events[n-1].at.After(e.at) {
		e.at = w.events[n-1].at
	}
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

// did logs an action of the platform's people.
func (w *walk) did(format string, args ...any) {
	w.trail = append(w.trail, fmt.Sprintf(format, args...))
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
	w.fake.Clock.Advance(by)
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

// pair adds an access token and a new refresh token.
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
	a := w.exchange(idOf(c, codeValue))
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
	a := w.renew(idOf(r, refreshValue))
	w.did("refresh → %d", a.status)
	if r == nil || r.ended || r.grant.ended {
		a.ok(400)
		return
	}
	access, refresh := a.ok(200, "oauth", "access_token"), a.ok(200, "oauth", "refresh_token")
	switch w.rotation {
	case behavior.RefreshRotationGrace:
		w.pair(r.grant, access, refresh, r)
	case behavior.RefreshRotationImmediate:
		r.ended = true
		w.pair(r.grant, access, refresh, nil)
	default:
		require.Equal(w.t, r.value, refresh)
		w.tokens = append(w.tokens, &walkToken{value: access.(string), grant: r.grant, expires: w.now.Add(2 * time.Hour)})
	}
}

func (w *walk) revoke() {
	token, refresh := one(w, w.tokens), one(w, w.refreshes)
	value := idOf(token, tokenValue)
	if byRefresh := w.odds(2); byRefresh {
		token, value = nil, idOf(refresh, refreshValue)
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
	err := w.fake.Tokens.Expire(idOf(token, tokenValue))
	if token == nil {
		require.Error(w.t, err)
		return
	}
	token.expires = w.now
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
