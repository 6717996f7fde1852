package browser

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/testkit/testsize"
	"github.com/dispensary-go/dispensary/webhook"
)

// walk counts the actions of an operator: a text with Enter is two.
type walk struct {
	*tab
	actions int
}

// find enters an ID into the field of every page.
func (w *walk) find(id string) {
	w.t.Helper()
	w.actions += 2
	w.fill("id", id)
	w.leads(chromedp.KeyEvent(kb.Enter))
}

func (w *walk) press(name string) {
	w.t.Helper()
	w.actions++
	w.tab.press(name)
}

// numbered returns the event n of 40 clinics, all with patient data.
func numbered(n int, kind events.Type) webhook.Delivery {
	d := webhook.Delivery{
		Key:  webhook.Key{Environment: sandbox, EventID: fmt.Sprintf("%08d-0f4b-4f0b-9c62-%012d", n, n), IntegrationID: "e1c9ab04"},
		Type: kind, ClinicID: fmt.Sprintf("clinic-%03d", n%40), ReceivedAt: later().Add(-4 * time.Hour),
	}
	d.Body = fmt.Appendf(nil, `{"event":{"id":%q,"type":%q,"data":{"patient":{"first_name":"Jane","last_name":"Doe"}}}}`, d.Key.EventID, kind)
	return d
}

// The tasks of an operator at night take as few actions with many dead letters as with few, and
// every sentence on the way is true.
func TestNightTasksTakeFewActions(t *testing.T) {
	testsize.SkipByDay(t)
	t.Parallel()
	for _, dead := range []int{10_000, 200_000} {
		t.Run(fmt.Sprint(dead), func(t *testing.T) {
			t.Parallel()
			o, accept := newOperations(t)
			for n := range dead {
				accept(numbered(n, []events.Type{events.TypeOrderPlaced, events.TypePatientUpdated}[n%2]))
			}
			o.repaired.Store(true)
			handled := numbered(dead+1, events.TypeOrderPlaced)
			handled.ClinicID = "clinic-handled"
			accept(handled)
			total, half := grouped(dead), grouped(dead/2)
			b := open(t)
			b.disableScripts(true)
			task := func(name string, actions int, do func(w *walk)) {
				b.visit(o.url)
				w := &walk{tab: b}
				do(w)
				assert.Equal(t, actions, w.actions, name)
			}
			task("T1: why was an event not handled", 2, func(w *walk) {
				w.find(numbered(dead/2, "").Key.EventID)
				w.sees("dead 3 h ago", "patients.get GET /clinic/patients/{id}: 503 Service Unavailable")
			})
			task("T1: a handled event", 2, func(w *walk) {
				w.find(handled.Key.EventID)
				w.sees("This event was handled")
			})
			task("T3: all events of a clinic", 2, func(w *walk) {
				w.find("clinic-007")
				w.sees(grouped(dead/40) + " events")
			})
			task("T3: a clinic whose events were handled", 2, func(w *walk) {
				w.find("clinic-handled")
				w.sees("No waiting event or dead letter has clinic-handled in its key or in a request ID, or is of a clinic with this ID.")
				assert.NotContains(t, w.text(), "received")
			})
			task("T4: better or worse", 0, func(w *walk) {
				w.sees(total, "0 new in the last hour, 0 in the hour before", "This process, since", "patients.get GET", "unknown_patient")
			})
			task("T5: the body", 3, func(w *walk) {
				w.find(numbered(dead/2, "").Key.EventID)
				w.press("Open the body")
				w.sees(`"first_name": "Jane"`)
			})
			task("T6: the request ID", 2, func(w *walk) {
				w.find("request-1")
				w.sees("request-1", "No waiting event or dead letter") // no event has failed with one
			})
			task("T2: replay a cause since midnight", 3, func(w *walk) {
				w.press("Replay unknown_patient")
				if later().UTC().Day() == time.Now().UTC().Day() {
					w.press("Since midnight")
				} else {
					w.press("At any time") // the events died yesterday
				}
				w.sees(half + " dead letters will be replayed if you press the button.")
				w.press("Replay " + half)
				w.sees(half+" events were replayed.", "No others match.")
			})
			b.wait("handled events", func() bool { return int(o.handled.Load()) == dead/2+1 })
		})
	}
}

func grouped(n int) string {
	text := fmt.Sprint(n)
	if len(text) > 3 {
		text = text[:len(text)-3] + "," + text[len(text)-3:]
	}
	return text
}

// A bulk change of several requests continues by itself, until somebody stops it.
func TestBulkChangeContinues(t *testing.T) {
	t.Parallel()
	o, accept := newOperations(t)
	for n := range 1000 {
		accept(numbered(n, events.TypePatientUpdated))
	}
	o.repaired.Store(true)
	o.inbox.most = 10
	b := open(t)
	b.visit(o.url + "bulk?action=replay")
	b.press("Replay 1,000")
	b.wait("another request", func() bool { return o.inbox.calls.Load() > 2 })
	b.unfold("Stop")
	b.sees("are left.", "Replay the other")
	made := o.inbox.calls.Load()
	require.Less(t, made, int32(100))
	assert.Contains(t, b.text(), fmt.Sprintf("%d events were replayed.", 10*made))

	o.inbox.most = 300
	b.press("Replay the other")
	b.sees("1,000 events were replayed. No others match.")
	assert.NotContains(t, b.text(), "Stop")
	b.wait("handled events", func() bool { return o.handled.Load() == 1000 })
	b.visit(eval[string](b, "location.href"))
	b.sees("1,000 events were replayed. No others match.")
}

// The overview refreshes by itself, unless it is paused, and shows its age.
func TestOverviewRefreshes(t *testing.T) {
	testsize.SkipByDay(t) // it takes 30 seconds
	t.Parallel()
	o, accept := newOperations(t)
	accept(numbered(0, events.TypePatientUpdated))
	b := open(t)
	count := func() string {
		return eval[string](b, `document.querySelector(".figures .big").textContent`)
	}
	b.visit(o.url)
	require.Equal(t, "1", count())
	accept(numbered(1, events.TypePatientUpdated))
	b.wait("the second dead letter", func() bool { return count() == "2" })
	b.unfold("Pause")
	b.sees("Refresh")
	accept(numbered(2, events.TypePatientUpdated))
	b.wait("the age of the page", func() bool { return strings.Contains(b.text(), " s ago") })
	assert.Equal(t, "2", count())
	b.unfold("Refresh")
	b.wait("the third dead letter", func() bool { return count() == "3" })
}

// After the second skip link, the first row is one Tab away.
func TestKeyboardReachesFirstRow(t *testing.T) {
	t.Parallel()
	o, accept := newOperations(t)
	o.night(accept)
	b := open(t)
	for page, first := range map[string]string{"": "patients.get GET", "events?state=dead": "order.placed", "events?state=waiting": "product.created"} {
		b.visit(o.url + page)
		b.keys(kb.Tab + kb.Tab)
		b.keys(kb.Enter)
		b.keys(kb.Tab)
		assert.Contains(t, eval[string](b, focusScript), first, page)
	}
}
