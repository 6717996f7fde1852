package browser

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// A developer finds the reason for a failing delivery and retries it.
func TestFailedDeliveryIsRetried(t *testing.T) {
	t.Parallel()
	twice(t, func(s *fixture, b *tab) {
		s.status.Store(http.StatusInternalServerError)
		b.visit(s.console + "world")
		b.press("Order as Jane Doe")
		b.sees("Done. Places an order as the patient: order.placed.")
		s.attempted(1)
		b.press("Deliveries")
		b.sees("failing")
		b.press("order.placed")
		assert.Equal(b.t, "failed due later later later later", b.slots())
		b.unfold("Attempt 1: status 500 is neither 200 nor 201")
		b.sees("SVC-Signature: t=", "Send again", "curl -i --json", "Verify the signature", "openssl dgst -sha256 -hmac")

		now := s.fake.Clock.Now()
		s.status.Store(http.StatusOK)
		b.press("Retry now")
		b.sees("Done. Moves the clock forward", "delivered", "2026-03-02 09:01:00 UTC")
		assert.Equal(b.t, "failed done", b.slots())
		assert.Equal(b.t, now.Add(time.Minute), s.fake.Clock.Now())
		b.press("Clock")
		b.sees("No delivery is due.")
	})
}

// attempted waits until n delivery attempts were made.
func (s *fixture) attempted(n int) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		made := 0
		for _, d := range s.fake.Webhooks.Deliveries() {
			made += len(d.Attempts)
		}
		return made >= n
	}, patience, 10*time.Millisecond)
}

// slots returns the states of the attempts of the open delivery.
func (b *tab) slots() string {
	b.t.Helper()
	return eval[string](b, `[...document.querySelector(".slots").children].map((slot) => slot.classList[1]).join(" ")`)
}

// An open page shows changes and keeps the reader's focus and open details.
func TestOpenPageShowsChanges(t *testing.T) {
	t.Parallel()
	s, b := newFixture(t), open(t)
	s.fill()
	b.visit(s.console + "deliveries?select=" + s.fake.Webhooks.Deliveries()[0].ID)
	b.unfold("Attempt 1: status 500")
	run(b, chromedp.Focus(named("Retry now"), chromedp.NodeVisible))
	eval[bool](b, `window.stays = true`)
	state := func() string {
		return eval[string](b, `[window.stays, document.activeElement.innerText, document.querySelector(".pane details").open].join()`)
	}
	require.Contains(t, state(), "true,Retry now")
	before := state()

	product, _, err := s.fake.Products.Create(model.ProductCreate{Name: "Magnesium"})
	require.NoError(t, err)
	b.sees("product.created")
	s.fake.Clock.Advance(10 * time.Second)
	b.sees("in 50 s", "2026-03-02 09:00:10 UTC")
	assert.Equal(t, before, state())
	b.press("Clock")
	s.fake.Clock.Advance(10 * time.Second)
	b.sees("due in 40 s")
	b.press("Requests")
	_, err = s.client().Catalog.Products.Get(t.Context(), product.ID)
	require.NoError(t, err)
	b.sees("products.get")
	b.press("Faults")
	s.fake.ClearFaults()
	b.sees("No faults are set.")
}

// A page shows that its connection has ended.
func TestPageShowsLostConnection(t *testing.T) {
	t.Parallel()
	s, b := newFixture(t), open(t)
	b.visit(s.console + "clock")
	s.fake.Clock.Advance(time.Minute)
	b.sees("2026-03-02 09:01:00 UTC")
	assert.Contains(t, eval[string](b, `document.querySelector("header time").title`), "2026", "the local time")
	away := `getComputedStyle(document.querySelector(".now"), "::after").content`
	assert.Equal(t, "none", eval[string](b, away))
	require.NoError(t, s.fake.Close())
	b.wait("notice of the lost connection", func() bool { return eval[string](b, away) == `" not connected"` })
}

// An update keeps typed text and the cursor.
func TestUpdateKeepsTypedText(t *testing.T) {
	t.Parallel()
	s, b := newFixture(t), open(t)
	b.visit(s.console + "deliveries")
	b.fill("body.url", "54abf1")
	s.fake.Clock.Advance(time.Minute)
	b.sees("2026-03-02 09:01:00 UTC")
	assert.Equal(t, "54abf1,6", eval[string](b, `[document.activeElement.value, document.activeElement.selectionStart].join()`))
}

// If the clock runs, the time on a page advances.
func TestPageTimeAdvances(t *testing.T) {
	t.Parallel()
	s, b := newFixture(t, dispensarytest.WithClock(nil)), open(t)
	s.fake.Tokens.Issue(model.User{})
	b.visit(s.console + "clock")
	shown := eval[string](b, `document.querySelector(".big").innerText`)
	b.wait("later time", func() bool { return eval[string](b, `document.querySelector(".big").innerText`) > shown })
}

// full fills the platform with many records and long names.
func (s *fixture) full() {
	s.t.Helper()
	p := s.fake
	_, _, err := p.Patients.Create(model.PatientCreate{
		FirstName: "Maximiliane-Alexandra-Theodora", LastName: strings.Repeat("von und zu Hohenstein-Wallerstein ", 3), Email: "maximiliane.alexandra@example.org",
	})
	require.NoError(s.t, err)
	for range 3 {
		_, _, err := p.Orders.Place(p.Patients.All()[0].ID, model.OrderCreate{})
		require.NoError(s.t, err)
	}
	s.attempted(4)
	for range 103 {
		response, err := http.Get(s.fake.Site().BaseURL + "/clinic/patients/7f6d1c52-0f4b-4f0b-9c62-1b5a0e7a3f10/treatment_plans")
		require.NoError(s.t, err)
		require.NoError(s.t, response.Body.Close())
	}
}

// measured returns up to three elements of the page for which the script expression fault is true.
func (b *tab) measured(of, fault string) []string {
	b.t.Helper()
	return eval[[]string](b, fmt.Sprintf(`(() => {
		const lines = (at) => at.getClientRects().length;
		return [...document.querySelectorAll(%q)].filter((at) => { const box = at.getBoundingClientRect(); return %s; })
			.map((at) => at.innerText + " " + at.getBoundingClientRect().width + " x " + at.getBoundingClientRect().height).slice(0, 3);
	})()`, of, fault))
}

// Numbers, email addresses and controls have enough space.
func TestConsoleLayoutFitsContent(t *testing.T) {
	t.Parallel()
	s, b := newFixture(t), open(t)
	s.full()
	b.visit(s.console + "requests")
	b.window(1280, 900)
	assert.Empty(t, b.measured("td:first-child", "box.height - 18 > 2 * 24 && at.clientWidth < 40"), "a number wraps")
	assert.Empty(t, eval[[]string](b, `[...document.querySelectorAll("td:first-child")].filter((at) => {
		const range = document.createRange();
		range.selectNodeContents(at);
		return range.getClientRects().length > 1;
	}).map((at) => at.innerText)`), "a number wraps")
	assert.Empty(t, b.measured(".rows tbody tr", "box.height > 40"), "a request has one line")
	b.visit(s.console + "world")
	b.window(1280, 900)
	assert.Empty(t, b.measured("td[data-label=E-mail]", "box.width < 200"), "the column of e-mail addresses is narrow")
	b.auditIn([]look{{"light", 44*16 + 1}}, "the narrowest window with tables")
	b.visit(s.console + "world?kind=orders")
	b.sees(" USD")
	b.visit(s.console + "deliveries")
	b.window(1280, 900)
	assert.Empty(t, b.measured(".rows tbody tr", "box.height > 40"), "a delivery has one line")
	b.menuFitsPhone()
}

func (b *tab) menuFitsPhone() {
	b.t.Helper()
	b.window(390, 800)
	assert.Empty(b.t, b.measured("body > header nav", "box.height > 100"), "the menu has at most three lines")
	assert.Empty(b.t, b.measured("body > header nav a", "box.left < 0 || box.right > 390 || box.height < 24"), "each link fits the window")
}
