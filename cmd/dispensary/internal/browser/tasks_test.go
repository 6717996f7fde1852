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

	"github.com/dispensary-go/dispensary/internal/webpage"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// mostTabs is the maximum number of Tab presses to reach a control.
const mostTabs = 200

// operator is a user with a keyboard and a browser without scripts. An action activates a control
// or fills in a field.
type operator struct {
	*tab
	actions int
}

func newOperator(t *testing.T) *operator {
	t.Helper()
	o := &operator{tab: open(t)}
	o.disableScripts(true)
	o.window(1280, 900)
	return o
}

// starts opens a page and resets the count of actions.
func (o *operator) starts(address string) {
	o.t.Helper()
	o.visit(address)
	o.actions = 0
}

// took requires that a task needed at most most actions, and resets the count.
func (o *operator) took(most int, task string) {
	o.t.Helper()
	assert.LessOrEqual(o.t, o.actions, most, task)
	o.actions = 0
}

// focus is the focused control.
type focus struct {
	Name string `json:"name"`
	Ring bool   `json:"ring"` // the focus ring is drawn
	Seen bool   `json:"seen"` // the control is in the window and not covered
}

const focusScript = `(() => {
	const at = document.activeElement, style = getComputedStyle(at), box = at.getClientRects()[0];
	const top = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
	return {
		name: (at.ariaLabel ?? (at.labels?.[0] ?? at).innerText).replace(/\s+/g, " ").trim(),
		ring: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2,
		seen: top !== null && (at.contains(top) || top.contains(at)),
	};
})()`

// to presses Tab until the name of the focused control begins with name. The focus must be visible
// at every stop.
func (o *operator) to(name string) {
	o.t.Helper()
	for range mostTabs {
		o.keys(kb.Tab)
		at := eval[focus](o.tab, focusScript)
		require.True(o.t, at.Ring, "focus ring on %q", at.Name)
		require.True(o.t, at.Seen, "%q is visible while it has the focus", at.Name)
		if strings.HasPrefix(at.Name, name) {
			return
		}
	}
	require.FailNow(o.t, "Tab does not reach "+name)
}

// activates presses a link or a button and waits for the next page.
func (o *operator) activates(name string) {
	o.t.Helper()
	o.to(name)
	o.enter()
}

func (o *operator) enter() {
	o.t.Helper()
	o.actions++
	o.leads(chromedp.KeyEvent(kb.Enter))
}

// fills types text into a field.
func (o *operator) fills(name, text string) {
	o.t.Helper()
	o.to(name)
	o.actions++
	o.keys(text)
}

// finds searches for an ID with the field of every page.
func (o *operator) finds(id string) {
	o.t.Helper()
	o.fills("ID of event", id)
	o.enter()
}

// An operator sees the trend of a bad night, finds events by ID and replays dead letters, with the
// keyboard and without scripts. The operator knows only the IDs in each question.
func TestKeyboardUserReplaysDeadLetters(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	n := newNight(t)

	o.starts(n.url)
	o.seesTrend(n)
	o.took(0, "better or worse")
	o.audit("the overview of a bad night")

	o.asksWhyNotHandled(n)
	o.asksAboutClinic(n)
	o.asksForRequestID(n)
	o.replaysSinceMidnight(n)
}

// seesTrend requires the numbers of the last hour and the hour before, and the chart.
func (o *operator) seesTrend(n *night) {
	o.t.Helper()
	dead := []string{noChart, duplicateOrder, unavailable, discarded}
	last, before := 30*time.Minute, 90*time.Minute
	o.sees(
		"10,000",
		fmt.Sprintf("%s new in the last hour, %s in the hour before", webpage.Number(n.during(last, dead...)), webpage.Number(n.during(before, dead...))),
		fmt.Sprintf("%d attempts failed in the last hour, %d in the hour before", n.during(last, waits), n.during(before, waits)),
		fmt.Sprintf("%d in the hour before", n.during(before, handled)),
	)
	assert.Greater(o.t, eval[int](o.tab, `document.querySelectorAll(".charts svg rect, .charts svg path").length`), 40, "bars")
}

// asksWhyNotHandled searches for the state of an event: dead letter, waiting, handled, discarded or
// never received.
func (o *operator) asksWhyNotHandled(n *night) {
	o.t.Helper()
	for end, answer := range map[string]string{
		noChart: "no_chart", unavailable: "503 Service Unavailable", waits: "context deadline exceeded",
		handled: "This event was handled", discarded: "This event was discarded",
	} {
		e := n.anyOf(end)
		o.starts(n.url)
		o.finds(e.Key.EventID)
		o.sees(answer)
		o.took(2, "why: "+end)
		if end == noChart {
			o.activates("Open the body")
			o.sees(fmt.Sprintf(`"id": %q`, e.Key.EventID), `"first_name": "Jane"`)
			o.took(2, "the body of an event")
		}
	}
	o.starts(n.url)
	o.finds(n.id())
	o.sees("was received in the last 30 days")
	o.took(2, "why: never received")
}

// asksAboutClinic searches for all events of a clinic, and for one delivery.
func (o *operator) asksAboutClinic(n *night) {
	o.t.Helper()
	clinic, stored := n.anyOf(waits).ClinicID, 0
	for _, e := range n.events {
		if e.ClinicID == clinic && e.end != handled && e.end != discarded {
			stored++
		}
	}
	o.starts(n.url)
	o.finds(clinic)
	o.sees(fmt.Sprintf("%d events", stored), "Replay: all dead letters", "Handle now: all waiting events")
	o.took(2, "everything of a clinic")
	o.audit("everything of a clinic")

	e := o.onThisPage(n, engine.Filter{ClinicID: clinic})
	o.activates(rowName(e))
	o.activates("Open the body")
	o.sees(fmt.Sprintf(`"id": %q`, e.Key.EventID))
	o.took(2, "a delivery")
}

// onThisPage returns a random event of the first page of a list.
func (o *operator) onThisPage(n *night, of engine.Filter) *nightEvent {
	o.t.Helper()
	listed, err := n.inbox.List(o.t.Context(), of, engine.Position{}, 50)
	require.NoError(o.t, err)
	return n.byID[listed[n.random.IntN(len(listed))].Key.EventID]
}

// rowName returns the name of an event's link in a list.
func rowName(e *nightEvent) string {
	return fmt.Sprintf("%s …%s", e.Type, e.Key.EventID[len(e.Key.EventID)-8:])
}

// asksForRequestID finds the request ID of a failed request, for the platform's support.
func (o *operator) asksForRequestID(n *night) {
	o.t.Helper()
	o.starts(n.url)
	o.activates("orders.get")
	o.actions = 0 // the question starts at this list
	e := o.onThisPage(n, engine.Filter{States: []engine.State{engine.StateDead}, Reason: unavailable})
	o.activates(rowName(e))
	o.sees(e.requestID)
	assert.NotContains(o.t, o.text(), "Jane")
	o.took(1, "request ID")
}

// replaysSinceMidnight replays the dead letters of one bug since midnight.
func (o *operator) replaysSinceMidnight(n *night) {
	o.t.Helper()
	broken := 0
	for _, e := range n.ended(noChart) {
		if e.night {
			broken++
		}
	}
	n.repaired.Store(true)
	o.starts(n.url)
	o.activates("Replay no_chart")
	o.sees("5,000 dead letters will be replayed.")
	o.activates("Since midnight")
	number := webpage.Number(broken)
	o.sees(number + " dead letters will be replayed.")
	o.activates("Replay " + number)
	o.sees(number + " events were replayed. No others match.")
	o.took(3, "replay of a cause since midnight")
	o.wait("handled events", func() bool { return n.handled.Load() == int64(broken) })
	left, err := n.inbox.Stats(o.t.Context())
	require.NoError(o.t, err)
	assert.Equal(o.t, 10_000-broken, left.Dead)
}
