package browser

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// full is a platform with much to show, and with long names.
func (s *fixture) full() {
	s.t.Helper()
	p := s.fake
	_, _, err := p.Patients.Register(model.NewPatient{
		FirstName: "Maximiliane-Alexandra-Theodora", LastName: strings.Repeat("von und zu Hohenstein-Wallerstein ", 3), Email: "maximiliane.alexandra@example.org",
	})
	require.NoError(s.t, err)
	for range 3 {
		_, _, err := p.Orders.Place(p.Patients.All()[0].ID, model.NewOrder{})
		require.NoError(s.t, err)
	}
	s.attempted(4)
	for range 103 {
		answer, err := http.Get(s.fake.BaseURL() + "/clinic/patients/7f6d1c52-0f4b-4f0b-9c62-1b5a0e7a3f10/treatment_plans")
		require.NoError(s.t, err)
		require.NoError(s.t, answer.Body.Close())
	}
}

// measured is what a page says about its layout, one line for each fault.
func (b *tab) measured(of, fault string) []string {
	b.t.Helper()
	return eval[[]string](b, fmt.Sprintf(`(() => {
		const lines = (at) => at.getClientRects().length;
		return [...document.querySelectorAll(%q)].filter((at) => { const box = at.getBoundingClientRect(); return %s; })
			.map((at) => at.innerText + " " + at.getBoundingClientRect().width + " x " + at.getBoundingClientRect().height).slice(0, 3);
	})()`, of, fault))
}

// Numbers, addresses and what can be pressed have the room they need.
func TestTheLayoutOfTheConsole(t *testing.T) {
	t.Parallel()
	s, b := newFixture(t), open(t)
	s.full()
	b.visit(s.console + "requests")
	b.window(1280, 900)
	assert.Empty(t, b.measured("td:first-child", "box.height - 18 > 2 * 24 && at.clientWidth < 40"), "a number is broken")
	assert.Empty(t, eval[[]string](b, `[...document.querySelectorAll("td:first-child")].filter((at) => {
		const range = document.createRange();
		range.selectNodeContents(at);
		return range.getClientRects().length > 1;
	}).map((at) => at.innerText)`), "a number is broken")
	assert.Empty(t, eval[[]string](b, `[...document.querySelectorAll(".asked small")].filter((at) => {
		const text = [...at.childNodes].filter((node) => node.data?.includes("7f6d1c52"));
		return !text.length || text.some((node) => { const range = document.createRange(); range.selectNode(node); return range.getClientRects().length > 1; });
	}).map((at) => at.innerText)`), "an id is broken")
	b.visit(s.console + "world")
	b.window(1280, 900)
	assert.Empty(t, b.measured("td[data-label=E-mail]", "box.width < 200"), "the column of e-mail addresses is narrow")
	assert.Empty(t, b.measured("td[data-label=Packs] a", "box.width < 24 || box.height < 24"), "a link is too small to hit")
	b.sees(" USD")
	b.visit(s.console + "deliveries")
	b.window(1280, 900)
	assert.Empty(t, b.measured("article", "box.height > 150"), "a delivery that was made takes little room")
	b.window(390, 800)
	assert.Empty(t, b.measured("body > header nav", "box.height > 60"), "the menu takes a line")
	assert.Empty(t, b.measured("body > header nav a[aria-current]", "box.left < 0 || box.right > 390"), "where one is can be seen")
}

// Lists can be searched, and turned over, with and without scripts.
func TestListsAreLookedThrough(t *testing.T) {
	t.Parallel()
	twice(t, func(s *fixture, b *tab) {
		s.full()
		b.visit(s.console + "requests")
		b.sees("1 to 50 of 103")
		b.press("Older")
		b.sees("51 to 100 of 103")
		b.press("Newer")
		b.fill("q", "no such thing")
		b.press("Show")
		b.sees("No request is like this.")
		b.press("Show all")
		b.sees("1 to 50 of 103")
		b.visit(s.console + "deliveries?q=order.placed")
		b.sees("1 to 3 of 3, from 4")
		b.audit("a list that is filtered")
	})
}
