package dispensarytest

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// This file is a model of the platform: its states and rules, small enough to be
// checked by reading, and pure. It knows nothing of the platform's code. Objects
// have no ids here; they are the n-th of their kind.

// laws are the rules a test may bend, to see that bending is noticed.
type laws struct {
	codeLife, tokenLife, retention time.Duration

	setting  Behavior // how the platform is set up
	rotation Behavior // how the walkModel thinks that it is

	codesWorkOnce       bool
	revokingEndsRefresh bool
	extendingEndsTokens bool
	addressesFold       bool // capital letters make no other address
	usersShareAddresses bool // practitioners and staff have one space of addresses
	cancelFrom          []string
	activateFrom        []string
	completeActivate    bool // only drafts with a patient and lines become active
	cancellingEmpties   bool
	callsMakeEvents     bool
	draftsMakeEvents    bool
	firstUseActivates   bool
	outsideNeedsHistory bool
	eventsApart         bool // those of one object have times of their own
}

func trueLaws(rotation Behavior) laws {
	return laws{
		codeLife: 10 * time.Minute, tokenLife: 2 * time.Hour, retention: 30 * 24 * time.Hour,
		setting: rotation, rotation: rotation, codesWorkOnce: true, revokingEndsRefresh: true, extendingEndsTokens: true,
		addressesFold: true, usersShareAddresses: true,
		cancelFrom: []string{"active"}, activateFrom: []string{"draft"}, completeActivate: true, cancellingEmpties: true,
		firstUseActivates: true, outsideNeedsHistory: true, eventsApart: true,
	}
}

// ref is the n-th object of a kind; a negative one is an unknown object.
type ref struct {
	kind string
	n    int
}

func (r ref) String() string {
	if r.n < 0 {
		return r.kind + "#unknown"
	}
	return fmt.Sprintf("%s#%d", r.kind, r.n)
}

type modelPatient struct {
	email, metadata string
	discount        float64
	cart            *modelCart
}

type modelCart struct {
	plan  int
	units []int
}

type modelUser struct {
	staff           bool
	email, metadata string
}

type modelPlan struct {
	patient  int // -1 when a link was made without one
	state    string
	units    []int // of the n-th product's first variant
	metadata string
	message  string
	outside  bool
	created  time.Time
	updated  time.Time
	told     time.Time
}

type modelOrder struct {
	patient, plan int // plan -1 where there is none
	refunded      bool
}

type modelEvent struct {
	kind  string
	about ref
	at    time.Time
}

type modelGrant struct {
	scopes            []string
	revoked, obsolete bool
}

type modelToken struct {
	grant      *modelGrant
	expires    time.Time
	supersedes int // a refresh token, or -1
}

type modelRefresh struct {
	grant *modelGrant
	ended bool
}

type modelCode struct {
	scopes  []string
	expires time.Time
	gone    bool
}

// model is the state of the whole platform.
type walkModel struct {
	laws
	now       time.Time
	appScopes []string
	activated bool
	revoked   bool // the clinic key

	patients  []*modelPatient
	users     []*modelUser
	plans     []*modelPlan
	orders    []*modelOrder
	events    []*modelEvent
	tokens    []*modelToken
	refreshes []*modelRefresh
	codes     []*modelCode
}

var groupMembers = map[string][]string{
	"clinic":   {"clinic:read", "clinic:write"},
	"patients": {"patients:read", "patients:write", "patients:treatment_plan_history", "patients:order_history"},
}

func (g *modelGrant) live() bool { return !g.revoked && !g.obsolete }

func (g *modelGrant) has(scope string) bool {
	return slices.ContainsFunc(g.scopes, func(s string) bool { return s == scope || slices.Contains(groupMembers[s], scope) })
}

func (m *walkModel) sameAddress(a, b string) bool {
	if m.addressesFold {
		return strings.EqualFold(a, b)
	}
	return a == b
}

// patientAt is the patient with an address, or -1.
func (m *walkModel) patientAt(email string) int {
	return slices.IndexFunc(m.patients, func(p *modelPatient) bool { return m.sameAddress(p.email, email) })
}

// taken reports that another patient has the address.
func (m *walkModel) taken(email string, except int) bool {
	at := m.patientAt(email)
	return at >= 0 && at != except
}

// userTaken is taken for practitioners and staff.
func (m *walkModel) userTaken(email string, staff bool, except int) bool {
	return slices.ContainsFunc(m.users, func(u *modelUser) bool {
		return m.sameAddress(u.email, email) && (m.usersShareAddresses || u.staff == staff) && (except < 0 || u != m.users[except])
	})
}

func (m *walkModel) practitioners() (n int) {
	for _, u := range m.users {
		if !u.staff {
			n++
		}
	}
	return n
}

// emit records an event about an object, and returns when it happened.
func (m *walkModel) emit(kind string, about ref) time.Time {
	e := &modelEvent{kind: kind, about: about, at: m.now}
	for _, before := range m.events {
		if m.eventsApart && before.about == about && !e.at.After(before.at) {
			e.at = before.at.Add(time.Millisecond)
		}
	}
	m.events = append(m.events, e)
	return e.at
}

// update never takes back the time of the plan's last event.
func (p *modelPlan) update(at time.Time) {
	if at.After(p.updated) {
		p.updated = at
	}
}

// called is what the API does beside answering: nothing, but under a bent law.
func (m *walkModel) called(kind string) {
	if m.callsMakeEvents {
		m.emit(kind, ref{})
	}
}

func (m *walkModel) kept(e *modelEvent) bool { return m.now.Sub(e.at) <= m.retention }

func (m *walkModel) addPlan(p modelPlan) ref {
	p.created, p.updated = m.now, m.now
	if p.state == "active" {
		p.told = m.now
	}
	m.plans = append(m.plans, &p)
	return ref{"plan", len(m.plans) - 1}
}

// activatePlan and cancelPlan report whether the plan's state allows it.
func (m *walkModel) activatePlan(p *modelPlan) bool {
	incomplete := p.patient < 0 || len(p.units) == 0
	if !slices.Contains(m.activateFrom, p.state) || m.completeActivate && p.state == "draft" && incomplete {
		return false
	}
	p.state, p.told = "active", m.now
	p.update(m.now)
	return true
}

func (m *walkModel) cancelPlan(p *modelPlan) bool {
	if !slices.Contains(m.cancelFrom, p.state) {
		return false
	}
	p.state = "cancelled"
	p.update(m.now)
	if m.cancellingEmpties {
		p.units = nil
	}
	return true
}

// issue gives out an access token; a refresh token comes along unless one that
// exists stays.
func (m *walkModel) issue(g *modelGrant, supersedes int) ref {
	m.tokens = append(m.tokens, &modelToken{grant: g, expires: m.now.Add(m.tokenLife), supersedes: supersedes})
	return ref{"token", len(m.tokens) - 1}
}

func (m *walkModel) issueRefresh(g *modelGrant) ref {
	m.refreshes = append(m.refreshes, &modelRefresh{grant: g})
	return ref{"refresh", len(m.refreshes) - 1}
}

// endConsents ends everything that was granted before.
func (m *walkModel) endConsents() {
	for _, t := range m.tokens {
		t.grant.obsolete = true
	}
	for _, r := range m.refreshes {
		r.grant.obsolete = true
	}
	for _, c := range m.codes {
		c.gone = true
	}
}

// enter is what happens to every API call first: token, clinic key and scope. It
// returns the status of a refusal, or 0.
func (m *walkModel) enter(token int, key keyChoice, scope string) int {
	if token < 0 {
		return 401
	}
	t := m.tokens[token]
	if !t.grant.live() || !m.now.Before(t.expires) {
		return 401
	}
	if t.supersedes >= 0 {
		m.refreshes[t.supersedes].ended = true
	}
	switch {
	case key == wrongKey, key == rightKey && m.revoked:
		return 401
	case key == rightKey && !m.activated && m.firstUseActivates:
		m.activated = true
		m.emit("clinic_key.activated", ref{kind: "integration"})
	}
	if scope != "" && !t.grant.has(scope) {
		return 403
	}
	return 0
}

// keyChoice is what a call sends as its clinic key.
type keyChoice int

const (
	noKey keyChoice = iota
	rightKey
	wrongKey
)
