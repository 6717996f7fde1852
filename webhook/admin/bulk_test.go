package admin_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/admin"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// changes records the calls of the observer.
type changes struct {
	all []admin.Change
	by  []any
}

func (c *changes) observer() admin.Observer {
	return admin.Observer{Changed: func(r *http.Request, change admin.Change) {
		c.all = append(c.all, change)
		c.by = append(c.by, r.Context().Value(staff{}))
	}}
}

func (f *fixture) dead() int {
	f.Helper()
	stats, err := f.inbox.Stats(f.Context())
	require.NoError(f, err)
	return stats.Dead
}

// A button replays the dead letter of its row, and a dry run discards one. Both return to the
// list.
func TestRowsChangeEvents(t *testing.T) {
	t.Parallel()
	var seen changes
	f := newFixture(t, func(_ *fixture, c *admin.Config) { c.Observer = seen.observer() })
	all := f.die(4)
	f.repaired = true
	page := f.get("events?state=dead&order=oldest&clinic=" + all[0].ClinicID)
	assert.Contains(t, page, `<tr id="row-3">`)
	assert.Contains(t, page, `formaction="bulk#row-3"`, "the browser must return to this row")
	page = f.press(page, "bulk")
	assert.Contains(t, page, "1 event was replayed.")
	assert.Contains(t, page, `<option value="`+all[0].ClinicID+`" selected>`, "the filter stays")
	assert.Contains(t, page, `<option value="dead" selected>`)
	again := <-f.made
	assert.Equal(t, all[0].Key, again.Key, "the button of the first row")
	assert.Equal(t, webhook.ResultHandled, again.Result)

	page = f.get("bulk?action=discard&key=" + url.QueryEscape(all[1].Key.String()))
	assert.Contains(t, page, "<b>1 dead letter</b> will be discarded if you press the button.")
	assert.Equal(t, 3, f.dead())
	page = f.press(page, "bulk")
	assert.Contains(t, page, "1 event was discarded.")
	assert.Contains(t, page, "This event was discarded")
	assert.Equal(t, 2, f.dead())

	page = f.post(http.StatusOK, "bulk", url.Values{"action": {"replay"}, "key": {all[1].Key.String()}})
	assert.Contains(t, page, "The event is no longer a dead letter.")
	require.Len(t, seen.all, 3)
	assert.Equal(t, []webhook.Key{all[0].Key}, seen.all[0].Filter.Keys)
	for n, want := range []admin.Change{{Action: admin.ActionReplay, Count: 1}, {Action: admin.ActionDiscard, Count: 1}, {Action: admin.ActionReplay}} {
		assert.Equal(t, want, admin.Change{Action: seen.all[n].Action, Count: seen.all[n].Count})
	}
	assert.Equal(t, []any{"jo", "jo", "jo"}, seen.by)
}

// A link to the list leads to no other page, even if a form contains another URL.
func TestBackLinkStaysOnList(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for from, want := range map[string]string{
		"state=dead&after=1.2": "events?after=1.2&did=NAME&state=dead",
		"x\r\ny=#z":            "events?did=NAME&x%0D%0Ay=%23z",
		"//evil.example/?a=b":  "events?%2F%2Fevil.example%2F%3Fa=b&did=NAME",
		"%zz":                  "events?did=NAME",
	} {
		d := f.die(1)[0]
		response, err := client.PostForm(f.url+"bulk", url.Values{"replay": {d.Key.String()}, "from": {from}})
		f.read(http.StatusSeeOther, response, err)
		<-f.made
		assert.Equal(t, want, regexp.MustCompile("did=[A-Z2-7]{26}").ReplaceAllString(response.Header.Get("Location"), "did=NAME"))
	}
}

// A waiting event is made due, alone or with all others.
func TestHandleNowMakesEventsDue(t *testing.T) {
	t.Parallel()
	var seen changes
	f := newFixture(t, func(_ *fixture, c *admin.Config) { c.Observer = seen.observer() })
	for range 3 {
		f.accept(waiting)
	}
	f.repaired = true
	page := f.press(f.get("events?state=waiting"), "bulk")
	assert.Contains(t, page, "1 event was made due.")
	assert.Equal(t, webhook.ResultHandled, (<-f.made).Result)
	page = f.get(f.link(f.get("events"), "Handle now: all waiting events…"))
	assert.Contains(t, page, "<b>2 waiting events</b> will be made due if you press the button.")
	page = f.press(page, "bulk")
	assert.Contains(t, page, "<b>2 events were made due.</b></p>", "it must not count the events still waiting for a worker")
	for range 2 {
		assert.Equal(t, webhook.ResultHandled, (<-f.made).Result)
	}
	assert.Equal(t, admin.ActionHandleNow, seen.all[1].Action)
}

// A dry run counts up to a limit. Its button changes exactly these events, and the next click
// continues.
func TestBulkChangesCountedEvents(t *testing.T) {
	t.Parallel()
	var seen changes
	f := newFixture(t, func(_ *fixture, c *admin.Config) { c.Observer = seen.observer() })
	for n := range 40 {
		f.accept(func(d *webhook.Delivery) {
			if d.ClinicID = "cl_1"; n%4 == 0 {
				d.ClinicID = "cl_2"
			}
		})
	}
	page := f.get("bulk?action=replay&clinic=cl_1&most=20")
	assert.Contains(t, page, "<b>20 dead letters</b> will be replayed if you press the button. 10 newer ones match too.")
	assert.Contains(t, page, `cl_1 <b class="number">20</b>`)
	assert.Equal(t, 40, f.dead(), "a dry run changes nothing")
	late := f.accept(func(d *webhook.Delivery) { d.ClinicID = "cl_1" })

	f.repaired = true
	page = f.press(page, "bulk")
	assert.Contains(t, page, "<b>20 events were replayed.</b>")
	assert.Contains(t, page, "<b>11 dead letters</b> match now.")
	for range 20 {
		assert.Equal(t, webhook.ResultHandled, (<-f.made).Result)
	}
	assert.Equal(t, 21, f.dead())
	require.Len(t, seen.all, 1)
	assert.Equal(t, 20, seen.all[0].Count)
	assert.Equal(t, "cl_1", seen.all[0].Filter.ClinicID)

	page = f.press(page, "bulk")
	assert.Contains(t, page, "<b>31 events were replayed.</b> No others match.")
	for range 11 {
		assert.Equal(t, late.ClinicID, (<-f.made).ClinicID)
	}
	f.repaired = false
	f.accept(func(d *webhook.Delivery) { d.ClinicID = "cl_1" })
	page = f.press(f.get("bulk?action=discard&clinic=cl_1"), "bulk")
	assert.Contains(t, page, "<b>1 event was discarded.</b> No others match.")
	assert.Equal(t, 10, f.dead(), "events of the other clinic")
	assert.Contains(t, f.get("bulk?action=replay&clinic=cl_1"), "No events match.")
	f.post(http.StatusBadRequest, "bulk", url.Values{"action": {"discard"}})
	f.post(http.StatusBadRequest, "bulk", url.Values{"action": {"discard"}, "clinic": {"cl_2"}})
	assert.Equal(t, 10, f.dead(), "no change without a dry run")
}

// A link, which anybody can send to an operator, reports no change that did not happen.
func TestLinksReportNoChange(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	d := f.die(1)[0]
	for _, path := range []string{
		"bulk?action=discard&done=9000", "bulk?action=discard&did=discard.9000", "events?state=dead&did=discard.1", "events?did=1", eventPath(d) + "&did=replay.1",
	} {
		page := f.get(path)
		assert.NotContains(t, page, "discarded.", path)
		assert.NotContains(t, page, "replayed.", path)
	}
	page := f.press(f.get("bulk?action=discard"), "bulk")
	assert.Contains(t, page, "<b>1 event was discarded.</b>", "control")
	name := regexp.MustCompile("did=[A-Z2-7]{26}")
	form := url.Values{"action": {"replay"}, "key": {d.Key.String()}}
	response, err := http.PostForm(f.url+"bulk", form)
	f.read(http.StatusOK, response, err)
	did := name.FindString(response.Request.URL.RawQuery)
	require.NotEmpty(t, did)
	assert.NotContains(t, f.get("bulk?action=discard&"+did), "discarded.", "another action")
}

// many is an engine with total dead letters, all later than any position.
type many struct {
	engine.Engine
	total int
}

func (m many) Count(_ context.Context, f engine.Filter, most int) (engine.Counts, error) {
	switch {
	case !f.Until.IsZero():
		return engine.Counts{}, nil
	case most > 0 && m.total > 0:
		return engine.Counts{Total: min(most, m.total)}, nil
	}
	return engine.Counts{Total: m.total}, nil
}

func (m many) Stats(context.Context) (engine.Stats, error) { return engine.Stats{Dead: m.total}, nil }

func TestPagesCountAllEvents(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(f *fixture, c *admin.Config) { c.Engine = many{f.inbox, 60_000} })
	assert.Contains(t, f.get("bulk?action=replay"), "<b>60,000 dead letters</b> will be replayed if you press the button. Each is")
	assert.Contains(t, f.get("bulk?action=replay&most=50000"), "<b>50,000 dead letters</b> will be replayed if you press the button. 10,000 newer ones match too.")
	assert.Contains(t, f.get("events"), "<b>60,000</b> events")
}

// slow is an engine that replays up to few events, and then runs out of time or fails.
type slow struct {
	engine.Engine
	few int
	err error
}

func (s *slow) Replay(ctx context.Context, f engine.Filter) (int, error) {
	page, err := s.List(ctx, f, engine.Page{Limit: s.few})
	if err != nil || len(page) == 0 {
		return 0, err
	}
	for _, e := range page {
		f.Keys = append(f.Keys, e.Key)
	}
	n, err := s.Engine.Replay(ctx, f)
	return n, errors.Join(err, s.err)
}

// If a request runs out of time, the next one continues from the same URL.
func TestBulkContinuesAfterTimeout(t *testing.T) {
	t.Parallel()
	var seen changes
	held := &slow{few: 10, err: context.DeadlineExceeded}
	f := newFixture(t, func(f *fixture, c *admin.Config) {
		held.Engine, c.Engine, c.Observer = f.inbox, held, seen.observer()
	})
	f.die(25)
	page := f.press(f.get("bulk?action=replay"), "bulk") // they become dead letters again
	assert.Contains(t, page, "<b>10 events were replayed.</b>")
	assert.Contains(t, page, "<b>15 dead letters</b> are left.")
	assert.Contains(t, page, `<progress max="25" value="10"`)
	assert.Contains(t, page, " data-continue>", "the script continues")
	for range 10 {
		assert.Equal(t, webhook.ResultDead, (<-f.made).Result)
	}
	f.repaired = true
	page = f.press(page, "bulk")
	assert.Contains(t, page, "<b>20 events were replayed.</b>")
	page = f.press(page, "bulk")
	assert.Contains(t, page, "<b>25 events were replayed.</b>")
	assert.Contains(t, page, "<b>10 dead letters</b> match now.", "dead again")
	assert.NotContains(t, page, "data-continue", "they are not of the dry run")
	for range 15 {
		assert.Equal(t, webhook.ResultHandled, (<-f.made).Result)
	}
	assert.Equal(t, 10, f.dead(), "a new dead letter must not be replayed again")
	require.Len(t, seen.all, 3)
	require.ErrorIs(t, seen.all[0].Err, context.DeadlineExceeded)

	held.err = errors.New("the database is down")
	page = f.get("bulk?action=replay")
	response, err := http.PostForm(f.url+"bulk", url.Values{"action": {"replay"}, "until": {untilOf(page)}})
	page = f.read(http.StatusInternalServerError, response, err)
	assert.Contains(t, page, "10 events were replayed. Then the inbox failed: the database is down")
	require.ErrorIs(t, seen.all[3].Err, held.err)
}

func untilOf(page string) string {
	_, after, _ := strings.Cut(page, `name="until" value="`)
	until, _, _ := strings.Cut(after, `"`)
	return until
}
