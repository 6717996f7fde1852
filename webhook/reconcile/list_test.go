package reconcile_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/testkit/testsize"
	"github.com/dispensary-go/dispensary/webhook"
)

// TestReconcilerHandlesEveryBehavior plays an outage and its repair with every behavior that the
// API leaves open.
func TestReconcilerHandlesEveryBehavior(t *testing.T) {
	t.Parallel()
	testsize.SkipUnderRace(t)
	run := func(t *testing.T, reading behavior.Variant) {
		t.Parallel()
		s := newFixture(t, dispensarytest.WithBehavior(reading), dispensarytest.WithTuning(dispensarytest.Tuning{Integrations: 2}))
		keyed := func(c *config) {
			c.Events = s.client(dispensary.WithClinicKey(dispensary.NewSecret(s.platform.ClinicKey()))).Events
		}
		s.happen(t, 5)
		s.switchOff(t)
		s.happen(t, 20)
		s.switchOn(t)
		s.reconcile(t, keyed)
		s.happen(t, 5)
		s.clock.Advance(24 * time.Hour) // time for late webhooks
		assert.Empty(t, s.reconcile(t, keyed).Recovered)
		s.readOnce(t)
		var keys []webhook.Key
		for _, e := range s.platform.Events() {
			if e.ClinicID == s.clinic || e.ClinicID == "" {
				keys = append(keys, s.keys(e)...)
			}
		}
		s.finish(t, keys...)
		s.platform.Journal.CheckNoUnexpected(t)
	}
	for i, choice := range behavior.Choices() {
		for j, variant := range choice.Variants {
			if i == 0 || j > 0 { // the defaults only once
				t.Run(string(variant), func(t *testing.T) { run(t, variant) })
			}
		}
	}
}

// Events during the listing move other events to later pages.
func TestRunToleratesChangingList(t *testing.T) {
	t.Parallel()
	testsize.SkipUnderRace(t)
	s := newFixture(t)
	s.happen(t, 1000)
	s.clock.Advance(2 * time.Hour)
	s.happen(t, 5)
	s.reconcile(t, nil)
	s.clock.Advance(2 * time.Hour)
	s.platform.Fault(model.Fault{Effect: model.EffectDeliveryLost})
	keys := s.happen(t, 750)
	patient := s.platform.Patients.All()[0]
	during := 0
	report := s.reconcile(t, s.rewritten(func(r *http.Request, _ map[string]any) {
		if strings.HasSuffix(r.URL.Path, "/events/orders") {
			for range 7 {
				_, _, err := s.platform.Orders.Place(patient.ID, model.OrderCreate{})
				assert.NoError(t, err)
				during++
			}
		}
	}))
	assert.Equal(t, keys, report.Recovered)
	assert.Equal(t, 14, during, "two pages, and no extra pages")
	assert.Len(t, s.reconcile(t, nil).Recovered, during)
}

// An event that the platform lists late must be found within the overlap.
func TestOverlapFindsLateEvents(t *testing.T) {
	t.Parallel()
	s := newLossyFixture(t)
	keys := s.happen(t, 20)
	late := keys[2]
	report := s.reconcile(t, s.rewritten(func(_ *http.Request, body map[string]any) {
		hide(body, func(e map[string]any) bool { return e["id"] == late.EventID })
	}))
	assert.Equal(t, slices.Delete(slices.Clone(keys), 2, 3), report.Recovered)
	report = s.reconcile(t, func(c *config) { c.Overlap = time.Second })
	assert.Empty(t, report.Recovered, "older than the overlap")
	assert.Equal(t, []webhook.Key{late}, s.reconcile(t, nil).Recovered)
	s.finish(t, keys...)
}

// If the platform ignores the sort order, the list must be read to its end.
func TestUnsortedListIsReadToEnd(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	keys := s.happen(t, 300)
	s.clock.Advance(48 * time.Hour)
	keys = append(keys, s.happen(t, 5)...)
	s.reconcile(t, nil)
	s.platform.Fault(model.Fault{Effect: model.EffectDeliveryLost})
	lost := s.happen(t, 10)
	client := s.ascending("/events/")
	report := s.reconcile(t, func(c *config) { c.Events = client.Events })
	assert.Equal(t, lost, report.Recovered, "all lost events in order")
	s.finish(t, append(keys, lost...)...)
}

// ascending returns a client of a platform that lists the oldest entries first.
func (s *fixture) ascending(path string) *dispensary.Client {
	base := s.platform.HTTPClient().Transport
	return s.client(dispensary.WithTransport(roundTrip(func(r *http.Request) (*http.Response, error) {
		r = r.Clone(r.Context())
		if strings.Contains(r.URL.Path, path) {
			r.URL.RawQuery = strings.ReplaceAll(r.URL.RawQuery, "order_by=DESC", "order_by=ASC")
		}
		return base.RoundTrip(r)
	})))
}

// If the delivery log is unsorted, it must be read to its end, too.
func TestUnsortedLogIsReadToEnd(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.broken.Store(true)
	logOnly := func(c *config) { c.Groups = []events.Group{events.GroupClinicKeys} }
	keys := s.happen(t, 150)
	s.clock.Advance(12 * time.Hour) // for all attempts
	assert.Len(t, s.reconcile(t, logOnly).Recovered, 150)
	keys = append(keys, s.happen(t, 1)...)
	assert.Equal(t, keys[150:], s.reconcile(t, logOnly).Recovered)
	late := s.happen(t, 1)
	client := s.ascending("")
	report := s.reconcile(t, func(c *config) {
		logOnly(c)
		c.Events = client.Events
	})
	assert.Equal(t, late, report.Recovered)
	assert.Equal(t, 2+1, report.Pages)
	s.finish(t, append(keys, late...)...)
}

// A wrong clock makes webhooks fail. It must not make the reconciler fail as well.
func TestWrongClockLosesNoEvent(t *testing.T) {
	t.Parallel()
	for name, off := range map[string]time.Duration{"fast": 12 * time.Hour, "slow": -12 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newLossyFixture(t)
			wrong := func(c *config) { c.Now = func() time.Time { return s.clock.Now().Add(off) } }
			var keys []webhook.Key
			for range 4 {
				more := s.happen(t, 5)
				assert.Equal(t, more, s.reconcile(t, wrong).Recovered)
				keys = append(keys, more...)
				s.clock.Advance(time.Hour)
			}
			s.finish(t, keys...)
		})
	}
}
