package browser

import (
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// An open page follows what happens, and does not disturb its reader.
func TestPagesFollow(t *testing.T) {
	t.Parallel()
	s, b := newFixture(t), open(t)
	s.fill()
	b.visit(s.console + "deliveries")
	b.unfold("Attempt 1: status 500")
	run(b, chromedp.Focus(named("Retry now"), chromedp.NodeVisible))
	eval[bool](b, `window.stays = true`)
	state := func() string {
		return eval[string](b, `[window.stays, document.activeElement.innerText, document.querySelector("article:last-of-type details").open].join()`)
	}
	require.Contains(t, state(), "true,Retry now")
	before := state()

	product, _, err := s.fake.Products.Create(model.NewProduct{Name: "Magnesium"})
	require.NoError(t, err)
	b.sees("product.created")
	s.fake.Clock().Advance(10 * time.Second)
	b.sees("in 50 s", "2026-03-02 09:00:10 UTC")
	assert.Equal(t, before, state())
	b.press("Clock")
	s.fake.Clock().Advance(10 * time.Second)
	b.sees("due in 40 s")
	b.press("Requests")
	_, err = s.client().Catalog.Products.Get(t.Context(), product.ID, catalog.ProductGetOptions{})
	require.NoError(t, err)
	b.sees("products.get")
	b.press("Faults")
	s.fake.ClearFaults()
	b.sees("Nothing goes wrong.")
}

// A page whose connection has ended says so.
func TestThePlatformGoes(t *testing.T) {
	t.Parallel()
	s, b := newFixture(t), open(t)
	b.visit(s.console + "clock")
	s.fake.Clock().Advance(time.Minute)
	b.sees("2026-03-02 09:01:00 UTC")
	away := `getComputedStyle(document.querySelector(".now"), "::after").content`
	assert.Equal(t, "none", eval[string](b, away))
	require.NoError(t, s.fake.Close())
	b.wait("word of it", func() bool { return eval[string](b, away) == `" not connected"` })
}

// What was begun to be typed stays, and so does the place in it.
func TestFormsAreLeftAlone(t *testing.T) {
	t.Parallel()
	s, b := newFixture(t), open(t)
	b.visit(s.console + "actions/platform.place_order")
	b.fill("patient_id", "54abf1")
	s.fake.Clock().Advance(time.Minute)
	b.sees("2026-03-02 09:01:00 UTC")
	assert.Equal(t, "54abf1,6", eval[string](b, `[document.activeElement.value, document.activeElement.selectionStart].join()`))
}

// On a clock that runs, the time on a page does, too.
func TestTimeRuns(t *testing.T) {
	t.Parallel()
	s, b := newFixture(t, dispensarytest.WithClock(dispensarytest.LiveClock())), open(t)
	s.fake.Tokens.Issue(model.User{})
	b.visit(s.console + "clock")
	shown := eval[string](b, `document.querySelector(".big").innerText`)
	b.wait("later time", func() bool { return eval[string](b, `document.querySelector(".big").innerText`) > shown })
}
