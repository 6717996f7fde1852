package browser

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/testkit/testsize"
	"github.com/dispensary-go/dispensary/oauth/accounts"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/admin"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/memoryinbox"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

// operations is the operations page of webhook/admin, mounted at a prefix.
type operations struct {
	url      string // with a final slash
	page     *admin.Handler
	activity admin.Activity
	repaired atomic.Bool
	inbox    *limited
	opened   atomic.Int32
	handled  atomic.Int32
}

// newOperations returns an empty page, and a function that accepts an event into its inbox and
// waits for the first attempt.
func newOperations(t *testing.T) (*operations, func(webhook.Delivery)) {
	t.Helper()
	o := &operations{}
	made := make(chan webhook.Attempt, 1000)
	inbox, err := memoryinbox.New(memoryinbox.Config{MaxEvents: 250_000, Work: webhook.Work{
		Workers: 1, Retry: webhook.RetryPolicy{BackOff: 12 * time.Hour, MaxBackOff: 12 * time.Hour},
		Handle: func(_ context.Context, e events.Event) error {
			switch {
			case o.repaired.Load():
				o.handled.Add(1)
				return nil
			case e.Type == events.TypeProductCreated:
				return context.DeadlineExceeded
			case e.Type == events.TypeOrderPlaced:
				return webhook.Permanent(&api.Error{
					Operation: "patients.get", Method: "GET", Route: "/clinic/patients/{id}", StatusCode: 503,
				})
			}
			return webhook.Permanent(webhook.WithReason("unknown_patient", errors.New("no such patient: Jane Doe")))
		},
		Observer: webhook.Observer{AttemptEnd: func(ctx context.Context, a webhook.Attempt) {
			o.activity.AttemptEnd(ctx, a)
			select {
			case made <- a:
			default: // nobody waits for the attempts after a replay
			}
		}},
	}})
	require.NoError(t, err)
	t.Cleanup(func() {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		_ = inbox.Close(ended)
	})
	o.inbox = &limited{Engine: inbox, most: math.MaxInt}
	alarm, err := webhook.NewAlarm(webhook.AlarmConfig{Notify: func(context.Context, webhook.Outage) {}})
	require.NoError(t, err)
	o.page, err = admin.New(admin.Config{
		Engine: o.inbox, Name: "Maple Hollow", Production: true, Activity: &o.activity, Now: o.now, Alarms: map[string]*webhook.Alarm{"us/sandbox": alarm}, Accounts: users{},
		Observer: admin.Observer{BodyOpened: func(*http.Request, webhook.Key) error { o.opened.Add(1); return nil }},
	})
	require.NoError(t, err)
	mux := http.NewServeMux()
	mux.Handle("/ops/webhooks/", http.StripPrefix("/ops/webhooks", o.page))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	o.url = server.URL + "/ops/webhooks/"
	return o, func(d webhook.Delivery) {
		t.Helper()
		_, err := inbox.Accept(t.Context(), d)
		require.NoError(t, err)
		<-made
	}
}

// limited is an engine that replays up to most events per call, and then runs out of time.
type limited struct {
	engine.Engine
	most  int
	calls atomic.Int32
}

func (l *limited) Replay(ctx context.Context, f engine.Filter) (int, error) {
	l.calls.Add(1)
	found, err := l.List(ctx, f, engine.Page{Limit: min(l.most, 250_000)})
	if err != nil || len(found) == 0 {
		return 0, err
	}
	f.Keys = []webhook.Key{}
	for _, e := range found {
		f.Keys = append(f.Keys, e.Key)
	}
	n, err := l.Engine.Replay(ctx, f)
	if len(found) == l.most && err == nil {
		err = context.DeadlineExceeded
	}
	return n, err
}

// now returns the time on the page. The process started 26 hours earlier.
func (o *operations) now() time.Time {
	if o.page == nil {
		return later().Add(-26 * time.Hour)
	}
	return later()
}

// users lists accounts. Some must authorize again.
type users struct{}

func (users) List(context.Context, accounts.ListOptions) iter.Seq2[accounts.Account, error] {
	return func(yield func(accounts.Account, error) bool) {
		for n := range 40 {
			account := accounts.Account{Key: tokenstore.Key{Environment: sandbox, User: fmt.Sprint("dr-", 100+n)}, Status: accounts.StatusConnected}
			if n%10 == 3 {
				account.Status, account.Reason = accounts.StatusMustReauthorize, tokenstore.ReasonInvalidGrant
				account.UpdatedAt, account.UsedAt = later().Add(-5*time.Hour), later().Add(-26*time.Hour)
			}
			if !yield(account, nil) {
				return
			}
		}
	}
}

func (users) PendingCommits() int       { return 2 }
func (users) Paused() (time.Time, bool) { return later().Add(10 * time.Minute), true }

var sandbox = api.USSandbox

// later is the time on the page. The events became dead letters three hours earlier.
func later() time.Time { return time.Now().Add(3 * time.Hour) }

// day fills the chart of the page. During the last three hours, a third of the attempts failed.
func (o *operations) day() {
	random := rand.New(rand.NewPCG(1, 2))
	for ago := range 24 * 60 {
		o.activity.Now = func() time.Time { return later().Add(-time.Duration(ago) * time.Minute) }
		for range random.IntN(25) {
			a := webhook.Attempt{Result: webhook.ResultHandled, Duration: time.Duration(random.ExpFloat64() * float64(80*time.Millisecond))}
			switch {
			case ago < 180 && random.IntN(3) == 0:
				a.Result = webhook.ResultDead
			case random.IntN(15) == 0:
				a.Result = webhook.ResultFailed
			}
			o.activity.AttemptEnd(context.Background(), a)
		}
	}
	o.activity.Now = nil
}

// night fills the page with events, dead letters and reconcile runs.
func (o *operations) night(accept func(webhook.Delivery)) {
	o.day()
	kinds := []events.Type{events.TypePatientUpdated, events.TypeOrderPlaced, events.TypeTreatmentPlanCreated, events.TypeOrderPlaced, events.TypeProductCreated}
	for n := range 130 {
		d := webhook.Delivery{
			Key:  webhook.Key{Environment: sandbox, EventID: fmt.Sprintf("7f6d1c52-0f4b-4f0b-9c62-%012d", n), IntegrationID: "e1c9ab04"},
			Type: kinds[n%len(kinds)], ClinicID: fmt.Sprintf("clinic-%d", n%7),
			ReceivedAt: later().Add(-time.Duration(500-n) * time.Minute),
		}
		d.Body = fmt.Appendf(nil, `{"event":{"id":%q,"type":%q,"data":{"patient":{"first_name":"Jane","last_name":"Doe"}}}}`, d.Key.EventID, d.Type)
		accept(d)
	}
	o.page.RunEnd(context.Background(), reconcile.Report{
		Name: "us/sandbox", Started: later().Add(-20 * time.Minute), Duration: 3 * time.Second, Missed: 12, Recovered: make([]webhook.Key, 11),
		Gaps:             []reconcile.Gap{{Group: events.GroupOrders, EventID: "evt_9", Type: events.TypeOrderPlaced}},
		FailedDeliveries: []reconcile.FailedDelivery{{Key: webhook.Key{Environment: sandbox, EventID: "evt_8"}, Type: events.TypeOrderPlaced, Attempts: 3, Status: 503}},
	}, nil)
	o.page.RunEnd(context.Background(), reconcile.Report{Name: "us/sandbox", Started: later().Add(-time.Minute)}, errors.New("orders: 503"))
}

// An operator reviews the dead letters of a bad night and replays those with one cause, with
// scripts and the mouse, and without scripts and with the keyboard.
func TestOperatorReplaysDeadLetters(t *testing.T) {
	t.Parallel()
	for name, without := range map[string]bool{"with scripts": false, "without scripts": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, accept := newOperations(t)
			o.night(accept)
			b := open(t)
			b.disableScripts(without)
			press := b.press
			if without {
				press = b.pressByKeys
			}
			b.visit(o.url)
			b.sees("Maple Hollow", "104", "It failed: orders: 503", "No token is refreshed in the background")
			press("patients.get")
			b.sees("52 events", "order.placed")
			press("Next page")
			press("First page")
			press("Replay: all dead letters")
			b.sees("52 dead letters will be replayed if you press the button.", "order.placed")
			assert.Zero(b.t, o.handled.Load())
			b.fill("most", "20")
			press("Count again")
			b.sees("20 dead letters will be replayed if you press the button.", "32 newer ones match too.")
			o.repaired.Store(true)
			press("Replay 20")
			b.sees("20 events were replayed.", "20 dead letters match now. 12 newer ones match too.")
			b.wait("handled events", func() bool { return o.handled.Load() == 20 })
			b.audit("a part that was replayed")
			press("Replay the other 20")
			b.sees("40 events were replayed.", "12 dead letters match now.")
			press("Back to the list")
			b.sees("12 events")
		})
	}
}

const focusScript = `(() => {
	const at = document.activeElement, style = getComputedStyle(at), box = at.getClientRects()[0];
	const top = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
	const ring = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2, seen = top !== null && (at.contains(top) || top.contains(at));
	return (ring && seen ? "" : "hidden ") + (at.ariaLabel ?? (at.labels?.[0] ?? at).innerText).replace(/\s+/g, " ").trim();
})()`

// pressByKeys presses Tab until the name of the focused control begins with name, and then
// Enter. At every stop, the control and its focus ring must be visible.
func (b *tab) pressByKeys(name string) {
	b.t.Helper()
	for range 200 {
		b.keys(kb.Tab)
		at := eval[string](b, focusScript)
		require.False(b.t, strings.HasPrefix(at, "hidden "), at)
		if strings.HasPrefix(at, name) {
			b.leads(chromedp.KeyEvent(kb.Enter))
			return
		}
	}
	require.FailNow(b.t, "Tab does not reach "+name)
}

// The page shows a body only after the operator has opened it.
func TestOperatorOpensBody(t *testing.T) {
	t.Parallel()
	o, accept := newOperations(t)
	o.night(accept)
	b := open(t)
	b.visit(o.url + "events?state=dead&clinic=clinic-2")
	b.leads(chromedp.Click(chromedp.CSS("td.event a"), chromedp.NodeVisible))
	b.sees("Opening it is recorded.", "clinic-2")
	assert.NotContains(t, b.text(), "Jane")
	b.press("Open the body")
	b.sees(`"first_name": "Jane"`)
	assert.EqualValues(t, 1, o.opened.Load())
	b.audit("an opened body")
	b.press("Discard")
	b.sees("1 dead letter will be discarded if you press the button.")
	b.press("Discard 1")
	b.sees("1 event was discarded.", "14 events")
}

// Every operations page passes the audit, and all its links work.
func TestOperationsPagesPassAudit(t *testing.T) {
	testsize.SkipByDay(t)
	t.Parallel()
	o, accept := newOperations(t)
	b := open(t)
	b.auditEmpty(o.url, []string{"", "events", "events?state=dead", "events?state=waiting", "runs"})
	o.night(accept)
	b.auditSite(o.url, []string{
		"", "events", "events?state=dead", "events?clinic=none", "events?state=waiting", "find?id=000000000017", "find?id=unknown", "runs", "accounts",
		"bulk?action=replay&clinic=clinic-2", "bulk?action=discard&most=3",
	})
	b.visit(o.url + "events?state=dead")
	b.window(1280, 900)
	assert.Empty(t, b.measured("html", "box.height > 2900"), "50 rows with whole IDs are dense")
	for _, page := range []string{"", "events?state=dead", "events?state=waiting", "find?id=000000000017", "accounts"} {
		b.visit(o.url + page)
		for _, width := range []int64{1280, 1000, 800, 720, 500, 390, narrow} {
			b.window(width, 800)
			assert.Empty(t, b.measured("main *", fmt.Sprintf("box.right > %d && box.width > 1", width)), "%q at %d px", page, width)
		}
	}
	b.menuFitsPhone()
}
