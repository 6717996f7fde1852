package listen_test

import (
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/listen"
)

func TestWrongConfigurations(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, f *fixture) {
		for field, change := range map[string]func(*listen.Config){
			"Config.Sources is empty":              func(c *listen.Config) { c.Sources = nil },
			"Config.Sources holds two":             func(c *listen.Config) { c.Sources = append(c.Sources, c.Sources[0]) },
			"Config.Forwarder is missing":          func(c *listen.Config) { c.Forwarder = nil },
			"Config.Cursor is missing":             func(c *listen.Config) { c.Cursor = "" },
			"Config.Since is negative":             func(c *listen.Config) { c.Since = -1 },
			"Config.Interval is negative":          func(c *listen.Config) { c.Interval = -1 },
			"Config.Types is empty":                func(c *listen.Config) { c.Types = []events.Type{} },
			`Config.Types holds "patient"`:         func(c *listen.Config) { c.Types = []events.Type{"patient"} },
			`Config.Types holds "payment.updated"`: func(c *listen.Config) { c.Types = []events.Type{events.OrderPlaced, "payment.updated"} },
			"Source.Events is missing":             func(c *listen.Config) { c.Sources[0].Events = events.Service{} },
			"Source.Environment is invalid":        func(c *listen.Config) { c.Sources[0].Environment.Region = "x" },
		} {
			c := f.config(t)
			change(&c)
			_, err := listen.New(c)
			wrong(t, err, "listen."+field)
		}
	})
}

// Find returns what there is of all groups in the order in which it happened.
func TestFind(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, f *fixture) {
		service := f.platform.Client(model.User{}).Events
		before, err := listen.Find(t.Context(), service, listen.FindOptions{})
		require.NoError(t, err)
		f.edit(t, 0, 1)
		since := time.Now()
		var want, edits []string
		for range 150 {
			if rand.N(2) == 0 {
				want = append(want, f.edit(t, rand.N(4), 1)...)
				edits = append(edits, want[len(want)-1])
				continue
			}
			_, e, err := f.platform.Orders.Place(f.platform.Patients.All()[0].ID, model.NewOrder{})
			require.NoError(t, err)
			want = append(want, e.ID)
			time.Sleep(time.Second)
		}
		found := func(o listen.FindOptions) (ids []string) {
			all, err := listen.Find(t.Context(), service, o)
			require.NoError(t, err)
			for _, e := range all {
				ids = append(ids, e.ID)
				assert.Nil(t, e.Data)
			}
			return ids
		}
		assert.Equal(t, want, found(listen.FindOptions{Since: since}))
		assert.Equal(t, edits, found(listen.FindOptions{Since: since, Types: []events.Type{events.PatientUpdated}}))
		assert.Len(t, found(listen.FindOptions{}), len(before)+151)
		_, err = listen.Find(t.Context(), service, listen.FindOptions{Types: []events.Type{"x"}})
		wrong(t, err, "FindOptions.Types")

		f.platform.Fault(model.Fault{Effect: model.ErrorStatus, Status: 403, Operation: "events.list_orders"})
		all, err := listen.Find(t.Context(), service, listen.FindOptions{Since: since})
		require.ErrorContains(t, err, "order events")
		assert.Len(t, all, len(edits))
	})
}

// moving is a platform on which something happens after each page of a list.
type moving struct {
	next   http.RoundTripper
	happen func()
}

func (m moving) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := m.next.RoundTrip(r)
	if strings.HasSuffix(r.URL.Path, "/events/patients") {
		m.happen()
	}
	return resp, err
}

// What happens while a list is read moves an event to the next page, and Find returns it
// once.
func TestFindWhileSomethingHappens(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, f *fixture) {
		f.edit(t, 0, 150) // more than a page
		left := 2
		network := moving{f.platform.HTTPClient().Transport, func() {
			if left--; left >= 0 {
				f.edit(t, 1, 1)
			}
		}}
		client := f.platform.Client(model.User{}, dispensary.WithHTTPClient(&http.Client{Transport: network}))
		all, err := listen.Find(t.Context(), client.Events, listen.FindOptions{})
		require.NoError(t, err)
		found := map[string]int{}
		for _, e := range all {
			found[e.ID]++
			assert.Equal(t, 1, found[e.ID], "%s is returned again", e)
		}
	})
}
