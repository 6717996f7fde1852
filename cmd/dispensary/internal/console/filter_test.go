package console

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// asks makes requests of the API, so that there is something to look through.
func (d *fixture) asks(n int, path string) {
	d.t.Helper()
	for i := range n {
		answer, err := d.fake.HTTPClient().Get(d.fake.BaseURL() + fmt.Sprintf(path, i+1))
		require.NoError(d.t, err)
		require.NoError(d.t, answer.Body.Close())
	}
}

func TestListsHavePages(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	d.asks(2*perPage+7, "/clinic/patients/no-%d-")
	first := d.sees("requests", "1 to 50 of 107", `<a href="?page=2" rel="next">Older</a>`, "/no-107-", "/no-58-")
	assert.NotContains(t, first, "/no-57-")
	assert.NotContains(t, first, "Newer")
	d.sees("requests?page=2", "51 to 100 of 107", `<a href="?" rel="prev">Newer</a>`, `<a href="?page=3" rel="next">`, "/no-57-", "/no-8-")
	last := d.sees("requests?page=3", "101 to 107 of 107", `<a href="?page=2" rel="prev">Newer</a>`, "/no-1-")
	assert.NotContains(t, last, "Older")
	for _, page := range []string{"4", "99999999999", "-1", "x"} {
		d.sees("requests?page="+page, " of 107")
	}
}

func TestListsAreSearched(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	d.fill()
	d.asks(1, "/clinic/patients/No-%d-")
	found := d.sees("requests?q=no-1-", "1 to 1 of 1, from", "/No-1-", `value="no-1-"`, `<a href="?">Show all</a>`)
	assert.NotContains(t, found, "clinic.get<br>")
	d.sees("requests?state=refused", "/No-1-", `<option selected>refused</option>`)
	d.sees("requests?q=nothing+like+this", "No request is like this.")
	d.sees("requests?q=%3Cb%3E", "&lt;b&gt;")
	d.sees("events?state=order.placed", "1 to 1 of 1")
	d.sees("events?q=order_number", "order.placed", "1 to ")
	d.sees("events?state=patient.created", "No event is like this.")
	d.sees("deliveries?state=failing", "1 to 1 of 1", "Retry now")
	d.sees("deliveries?state=delivered", "No delivery is like this.")
	d.sees("deliveries?q="+d.fake.Webhooks.Deliveries()[0].EventID, "1 to 1 of 1")
	d.sees("events", "<option>order.placed</option>")
}

// A button on a page that is filtered returns to the same rows.
func TestButtonsKeepTheSift(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	d.fill()
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	page := d.sees("deliveries?q=order&state=failing&page=1&more=x")
	assert.Contains(t, page, `name="return" value="deliveries?q=order&amp;state=failing"`)
	for returning, want := range map[string]string{
		"deliveries?q=order&state=failing": "../deliveries?q=order&state=failing&did=",
		"deliveries?q=a%26b&x=y":           "../deliveries?q=a%26b&did=",
		"deliveries?%zz":                   "./clock.advance?did=",
		"//evil.example.com/?q=x":          "./clock.advance?did=",
	} {
		answer, err := client.PostForm(d.url+"actions/clock.advance", url.Values{"body.by": {"1s"}, "return": {returning}})
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		assert.True(t, strings.HasPrefix(answer.Header.Get("Location"), want), answer.Header.Get("Location"))
	}
}

func TestEveryStandingCanBeChosen(t *testing.T) {
	t.Parallel()
	for _, d := range []model.Delivery{{Delivered: true}, {Lost: true}, {Stopped: true}, {}} {
		_, text := deliveryState(d)
		assert.Contains(t, deliveryStates, text)
	}
}
