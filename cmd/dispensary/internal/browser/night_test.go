package browser

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/admin"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/memoryinbox"
)

// The causes of dead letters, and the other results of events.
const (
	noChart        = "no_chart"
	duplicateOrder = "duplicate_order"
	unavailable    = "permanent: dispensary: orders.get GET /clinic/orders/{id}: 503 Service Unavailable"

	waits     = "waits"
	handled   = "handled"
	discarded = "discarded"
)

// nightEvent is an event of the bad night.
type nightEvent struct {
	webhook.Delivery
	end       string        // a cause, or another result
	requestID string        // of the platform's response, if it is the cause
	ago       time.Duration // time since the attempt, on the chart
	night     bool          // attempted after midnight
}

// night is an inbox with 10,000 dead letters of 3 causes and 40 clinics, with its pages.
type night struct {
	url      string // with a final slash
	inbox    *memoryinbox.Inbox
	events   []*nightEvent
	byID     map[string]*nightEvent
	random   *rand.Rand
	repaired atomic.Bool
	handled  atomic.Int64
	opened   atomic.Int64

	mu       sync.Mutex
	activity admin.Activity
	at       time.Time // time of the counted attempt
	attempts chan webhook.Attempt
}

// newNight accepts the events, some before midnight, and waits for their attempts.
func newNight(t *testing.T) *night {
	t.Helper()
	n := &night{byID: map[string]*nightEvent{}, random: rand.New(rand.NewPCG(3, 37)), attempts: make(chan webhook.Attempt, 20_000)}
	n.activity.Now = func() time.Time { return n.at }
	n.plan(map[string]int{noChart: 5_000, duplicateOrder: 2_600, unavailable: 2_400, waits: 200, handled: 300, discarded: 10})
	var err error
	n.inbox, err = memoryinbox.New(memoryinbox.Config{MaxEvents: len(n.events), Work: webhook.Work{
		Handle: n.handle, Retry: webhook.RetryPolicy{BackOff: time.Hour}, Observer: webhook.Observer{AttemptEnd: n.attempted},
	}})
	require.NoError(t, err)
	t.Cleanup(func() {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		_ = n.inbox.Close(ended)
	})
	n.accept(t, false)
	midnight := time.Now().Truncate(time.Second).Add(time.Second)
	require.Eventually(t, func() bool { return !time.Now().Before(midnight) }, time.Minute, 10*time.Millisecond)
	n.accept(t, true)
	var keys []webhook.Key
	for _, e := range n.ended(discarded) {
		keys = append(keys, e.Key)
	}
	_, err = n.inbox.Discard(t.Context(), engine.Filter{Keys: keys})
	require.NoError(t, err)
	n.serve(t, zoneOf(midnight))
	return n
}

// zoneOf returns a time zone in which a time is midnight.
func zoneOf(midnight time.Time) *time.Location {
	east := -int(midnight.Unix() % 86_400)
	if east < -43_200 {
		east += 86_400
	}
	return time.FixedZone("local", east)
}

// plan creates the events. ends is the number of events per result.
func (n *night) plan(ends map[string]int) {
	began := time.Now()
	types := []events.Type{events.TypeOrderPlaced, events.TypePatientUpdated, events.TypeTreatmentPlanCreated, events.TypeTreatmentPlanUpdated}
	clinics := make([]string, 40)
	for i := range clinics {
		clinics[i] = "cl_" + n.id()[:8]
	}
	for _, end := range []string{noChart, duplicateOrder, unavailable, waits, handled, discarded} {
		for range ends[end] {
			e := &nightEvent{end: end, night: n.random.IntN(3) > 0, requestID: n.id(), ago: time.Duration(120+n.random.IntN(20*60)) * time.Minute}
			switch n.random.IntN(6) {
			case 0:
				e.ago = 90 * time.Minute
			case 1, 2:
				e.ago = 30 * time.Minute
			}
			e.Delivery = webhook.Delivery{
				Key:  webhook.Key{Environment: sandbox, EventID: n.id(), IntegrationID: "e1c9ab04"},
				Type: types[n.random.IntN(len(types))], ClinicID: clinics[n.random.IntN(len(clinics))], ReceivedAt: began.Add(-e.ago),
			}
			e.Body = fmt.Appendf(nil, `{"event":{"id":%q,"type":%q,"data":{"patient":{"first_name":"Jane","last_name":"Doe"}}}}`, e.Key.EventID, e.Type)
			n.events, n.byID[e.Key.EventID] = append(n.events, e), e
		}
	}
	n.random.Shuffle(len(n.events), func(i, j int) { n.events[i], n.events[j] = n.events[j], n.events[i] })
}

// id returns a new ID.
func (n *night) id() string {
	high, low := n.random.Uint64(), n.random.Uint64()
	return fmt.Sprintf("%08x-%04x-4%03x-8%03x-%012x", high>>32, high>>16&0xffff, high&0xfff, low>>48&0xfff, low&0xffff_ffff_ffff)
}

// accept accepts the events before or after midnight and waits for their attempts.
func (n *night) accept(t *testing.T, night bool) {
	t.Helper()
	accepted := 0
	for _, e := range n.events {
		if e.night == night {
			_, err := n.inbox.Accept(t.Context(), e.Delivery)
			require.NoError(t, err)
			accepted++
		}
	}
	for range accepted {
		<-n.attempts
	}
}

// handle is the handler of an application with bugs.
func (n *night) handle(_ context.Context, e events.Event) error {
	if n.repaired.Load() {
		n.handled.Add(1)
		return nil
	}
	switch one := n.byID[e.ID]; one.end {
	case handled:
		return nil
	case waits:
		return context.DeadlineExceeded
	case unavailable:
		return webhook.Permanent(&api.Error{
			Operation: "orders.get", Method: "GET", Route: "/clinic/orders/{id}", StatusCode: http.StatusServiceUnavailable, RequestID: one.requestID,
		})
	case duplicateOrder:
		return webhook.Permanent(webhook.WithReason(duplicateOrder, errors.New("Jane Doe has this order")))
	}
	return webhook.Permanent(webhook.WithReason(noChart, errors.New("Jane Doe has no chart")))
}

// attempted records an attempt at its time on the chart.
func (n *night) attempted(ctx context.Context, a webhook.Attempt) {
	n.mu.Lock()
	n.at = time.Now().Add(-n.byID[a.Key.EventID].ago)
	n.activity.AttemptEnd(ctx, a)
	n.mu.Unlock()
	n.attempts <- a
}

// serve serves the operations pages in a time zone.
func (n *night) serve(t *testing.T, zone *time.Location) {
	t.Helper()
	page, err := admin.New(admin.Config{
		Engine: n.inbox, Name: "Maple Hollow", Production: true, Activity: &n.activity, Location: zone,
		Observer: admin.Observer{BodyOpened: func(*http.Request, webhook.Key) error { n.opened.Add(1); return nil }},
	})
	require.NoError(t, err)
	server := httptest.NewServer(page)
	t.Cleanup(server.Close)
	n.url = server.URL + "/"
}

// ended returns the events with a result.
func (n *night) ended(end string) (all []*nightEvent) {
	for _, e := range n.events {
		if e.end == end {
			all = append(all, e)
		}
	}
	return all
}

// anyOf returns a random event with a result.
func (n *night) anyOf(end string) *nightEvent {
	all := n.ended(end)
	return all[n.random.IntN(len(all))]
}

// during counts the events with one of the results and this time since the attempt.
func (n *night) during(ago time.Duration, ends ...string) (count int) {
	for _, end := range ends {
		for _, e := range n.ended(end) {
			if e.ago == ago {
				count++
			}
		}
	}
	return count
}
