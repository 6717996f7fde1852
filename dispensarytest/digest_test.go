package dispensarytest

import (
	"hash/maphash"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
)

// digest is a number for everything a platform knows: two equal ones mean that
// nothing has changed in between. It is cheap, because rows are replaced and
// never changed: their addresses say whether they are the same. Left out are the
// forms of open authorize pages, which are used up even by a wrong password.
type digest struct {
	seed maphash.Seed
	sum  uint64
}

func (s *Server) digest(seed maphash.Seed) uint64 {
	d := &digest{seed: seed}
	s.mu.RLock()
	d.world(s.world)
	s.mu.RUnlock()
	d.tokens(s.tokens)
	d.sender(s.sender)
	return d.sum
}

// mark adds a fact; the order of facts does not matter.
func mark[T comparable](d *digest, fact T) { d.sum += maphash.Comparable(d.seed, fact) }

func markRows[T any](d *digest, rows *table.Table[T]) {
	type seated struct {
		seat int
		row  *T
	}
	for seat := range rows.Len() {
		mark(d, seated{seat, rows.At(seat)})
	}
}

func (d *digest) world(w *world) {
	type count struct {
		kind string
		n    uint64
	}
	for kind, n := range w.numbers {
		mark(d, count{kind, n})
	}
	for _, terms := range []*table.Table[Term]{&w.allergens, &w.ingredients, &w.supplementTypes, &w.certifications} {
		markRows(d, terms)
	}
	markRows(d, &w.practitionerTypes)
	markRows(d, &w.brands)
	markRows(d, &w.products)
	markRows(d, &w.variants)
	markRows(d, &w.categories)
	markRows(d, &w.customDosages)
	markRows(d, &w.clinics)
	markRows(d, &w.integrations)
	markRows(d, &w.patients)
	markRows(d, &w.practitioners)
	markRows(d, &w.staff)
	markRows(d, &w.addresses)
	markRows(d, &w.users)
	markRows(d, &w.plans)
	markRows(d, &w.protocols)
	markRows(d, &w.orders)
	markRows(d, &w.events)
	markRows(d, &w.carts)
	type entry struct{ index, key, id string }
	for key, id := range w.patientEmails.Own {
		mark(d, entry{"patient", key, id})
	}
	for key, id := range w.userEmails.Own {
		mark(d, entry{"user", key, id})
	}
}

func (d *digest) tokens(s *tokenStore) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	type access struct {
		value             string
		revoked, obsolete bool
		used              bool
		expires           time.Time
	}
	for value, t := range s.access {
		mark(d, access{value, t.grant.revoked || t.revoked, t.grant.obsolete, t.used.Load(), t.expires})
	}
	type refresh struct {
		value             string
		revoked, obsolete bool
	}
	for value, g := range s.refresh {
		mark(d, refresh{value, g.revoked, g.obsolete})
	}
	type code struct {
		value   string
		expires time.Time
	}
	for value, c := range s.codes {
		mark(d, code{value, c.expires})
	}
	mark(d, s.issued)
	mark(d, strings.Join(s.scopes, " "))
}

func (d *digest) sender(s *sender) {
	s.mu.Lock()
	defer s.mu.Unlock()
	type delivered struct {
		id                 string
		attempts           int
		delivered, stopped bool
		next               time.Time
	}
	for one := range s.deliveries.All() {
		mark(d, delivered{one.ID, len(one.Attempts), one.Delivered, one.Stopped, one.NextAttemptAt})
	}
	markRows(d, &s.skips)
	if ep := s.endpoint; ep != nil {
		mark(d, [3]string{ep.URL, ep.Reason, strings.Join(ep.Types, " ")})
		mark(d, ep.FailingSince)
	}
}

// A digest that overlooks something would let changes pass.
func TestDigestSeesEveryChange(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory(), WithClock(frozen()))
	p, seed := b.fake.Platform(), maphash.MakeSeed()
	jane, plan := p.Patients()[0], p.Plans()[0]
	pair := b.fake.IssueToken(User{})
	hook := newReceiver(nil)
	seen := map[uint64]string{b.fake.digest(seed): "the start"}
	for _, change := range []struct {
		name string
		run  func()
	}{
		{"a patient edits", func() {
			_, _, err := p.EditPatient(jane.ID, PatientChange{FirstName: new("Janet")})
			require.NoError(t, err)
		}},
		{"a call", func() { b.send("PATCH", "/clinic/patients/"+jane.ID, map[string]any{"discount": 1}).ok(200) }},
		{"a cart", func() { b.send("POST", "/clinic/treatment_plans/"+plan.ID+"/in_office_checkout", nil).ok(201) }},
		{"a code", func() { b.code(User{}) }},
		{"a refresh", func() { b.renew(pair.RefreshToken).ok(200) }},
		{"a revocation", func() { b.fake.tokens.revoke(pair.AccessToken, b.fake.reads()) }},
		{"an expiry", func() { require.NoError(t, b.fake.ExpireToken(pair.AccessToken)) }},
		{"an endpoint", func() { require.NoError(t, b.fake.RegisterWebhookHandler(hook)) }},
		{"an event and its delivery", func() { _, e := b.place(); _ = b.wait(e) }},
		{"another attempt", func() { b.fake.Clock().Advance(time.Minute) }},
		{"a key", func() { _, err := p.RevokeClinicKey(b.fake.ClinicKey()); require.NoError(t, err) }},
		{"the end of all tokens", b.fake.InvalidateTokens},
	} {
		change.run()
		now := b.fake.digest(seed)
		assert.Empty(t, seen[now], change.name)
		seen[now] = change.name
	}
	b.fake.Clock().Advance(0) // what is on its way arrives first
	before := b.fake.digest(seed)
	b.get("/clinic").refused(401, "invalidated")
	assert.Equal(t, before, b.fake.digest(seed))
}
