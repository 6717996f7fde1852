package dispensarytest

import (
	"hash/maphash"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/tokens"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/webhooks"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
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
	s.store.RLock()
	d.world(s.store.World)
	s.store.RUnlock()
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

func (d *digest) world(w *store.World) {
	type count struct {
		kind string
		n    uint64
	}
	for kind, n := range w.Numbers {
		mark(d, count{kind, n})
	}
	for _, terms := range []*table.Table[model.Term]{&w.Allergens, &w.Ingredients, &w.SupplementTypes, &w.Certifications} {
		markRows(d, terms)
	}
	markRows(d, &w.PractitionerTypes)
	markRows(d, &w.Brands)
	markRows(d, &w.Products)
	markRows(d, &w.Variants)
	markRows(d, &w.Categories)
	markRows(d, &w.CustomDosages)
	markRows(d, &w.Clinics)
	markRows(d, &w.Integrations)
	markRows(d, &w.Patients)
	markRows(d, &w.Practitioners)
	markRows(d, &w.Staff)
	markRows(d, &w.Addresses)
	markRows(d, &w.Users)
	markRows(d, &w.Plans)
	markRows(d, &w.Protocols)
	markRows(d, &w.Orders)
	markRows(d, &w.Events)
	markRows(d, &w.Carts)
	type entry struct{ index, key, id string }
	for key, id := range w.PatientEmails.Own {
		mark(d, entry{"patient", key, id})
	}
	for key, id := range w.UserEmails.Own {
		mark(d, entry{"user", key, id})
	}
}

func (d *digest) tokens(s *tokens.Store) {
	s.Mu.RLock()
	defer s.Mu.RUnlock()
	type access struct {
		value             string
		revoked, obsolete bool
		used              bool
		expires           time.Time
	}
	for value, t := range s.Access {
		mark(d, access{value, t.Grant.Revoked || t.Revoked, t.Grant.Obsolete, t.Used.Load(), t.Expires})
	}
	type refresh struct {
		value             string
		revoked, obsolete bool
	}
	for value, g := range s.Refresh {
		mark(d, refresh{value, g.Revoked, g.Obsolete})
	}
	type code struct {
		value   string
		expires time.Time
	}
	for value, c := range s.Codes {
		mark(d, code{value, c.Expires})
	}
	mark(d, s.Issued)
	mark(d, strings.Join(s.Scopes, " "))
}

func (d *digest) sender(s *webhooks.Sender) {
	s.Store.Lock()
	defer s.Store.Unlock()
	type delivered struct {
		id                 string
		attempts           int
		delivered, stopped bool
		next               time.Time
	}
	for one := range s.Deliveries.All() {
		mark(d, delivered{one.ID, len(one.Attempts), one.Delivered, one.Stopped, one.NextAttemptAt})
	}
	markRows(d, &s.Skips)
	if ep := s.Endpoint; ep != nil {
		mark(d, [3]string{ep.URL, ep.Reason, strings.Join(ep.Types, " ")})
		mark(d, ep.FailingSince)
	}
}

// A digest that overlooks something would let changes pass.
func TestDigestSeesEveryChange(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory(), WithClock(frozen()))
	p, seed := b.fake, maphash.MakeSeed()
	jane, plan := p.Patients.All()[0], p.Plans.All()[0]
	pair := b.fake.Tokens.Issue(model.User{})
	hook := newReceiver(nil)
	seen := map[uint64]string{b.fake.digest(seed): "the start"}
	for _, change := range []struct {
		name string
		run  func()
	}{
		{"a patient edits", func() {
			_, _, err := p.Patients.Edit(jane.ID, model.PatientChange{FirstName: new("Janet")})
			require.NoError(t, err)
		}},
		{"a call", func() { b.send("PATCH", "/clinic/patients/"+jane.ID, map[string]any{"discount": 1}).ok(200) }},
		{"a cart", func() { b.send("POST", "/clinic/treatment_plans/"+plan.ID+"/in_office_checkout", nil).ok(201) }},
		{"a code", func() { b.code(model.User{}) }},
		{"a refresh", func() { b.renew(pair.RefreshToken).ok(200) }},
		{"a revocation", func() { b.fake.tokens.Revoke(pair.AccessToken, b.fake.behaviors.Get()) }},
		{"an expiry", func() { require.NoError(t, b.fake.Tokens.Expire(pair.AccessToken)) }},
		{"an endpoint", func() { require.NoError(t, b.fake.Webhooks.RegisterHandler(hook)) }},
		{"an event and its delivery", func() { _, e := b.place(); _ = b.wait(e) }},
		{"another attempt", func() { b.fake.Clock().Advance(time.Minute) }},
		{"a key", func() { _, err := p.Clinics.RevokeKey(b.fake.ClinicKey()); require.NoError(t, err) }},
		{"the end of all tokens", b.fake.Tokens.InvalidateAll},
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
