package admin_test

import (
	"context"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/admin"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

func rows(page string) int { return strings.Count(page, `class="event"`) }

// Lists have filters for state, type, clinic, reason, time and ID, and several pages.
func TestListsFilterEvents(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	for n := range 120 {
		f.accept(func(d *webhook.Delivery) {
			d.ClinicID = "cl_" + string(rune('a'+n%4))
			if n%3 == 0 {
				d.Type = "robot.built"
			}
			if n%10 == 0 {
				d.Body = nil
			}
		})
	}
	waits := f.accept(waiting)
	page := f.get("events?state=dead")
	assert.Equal(t, 50, rows(page))
	assert.Contains(t, page, "<b>120</b> events")
	for _, want := range []int{50, 20} {
		next := regexp.MustCompile(`href="([^"]*)" rel="next"`).FindStringSubmatch(page)
		page = f.get(html.UnescapeString(next[1]))
		assert.Equal(t, want, rows(page))
	}
	assert.NotContains(t, page, `rel="next"`)
	assert.Contains(t, page, "First page")
	for query, want := range map[string]string{
		"": "121", "state=waiting": "1", "type=robot.built": "40", "clinic=cl_a": "30", "reason=" + url.QueryEscape("permanent: unnamed error: see webhook.WithReason"): "108",
		"reason=" + url.QueryEscape("permanent: error of type *fmt.wrapError"): "0", "clinic=cl_": "0", "id=" + waits.Key.EventID: "1",
		"reason=" + url.QueryEscape(events.ErrMalformed.Error()): "12", "type=robot.built&clinic=cl_b": "10",
		"since=2020-01-01T00:00": "120", "before=2020-01-01T00:00:30": "0", "since=2020-01-01": "120", "since=2020-01-01T00:00:00Z&state=waiting": "0",
	} {
		page := f.get("events?" + query)
		if want == "0" {
			assert.Contains(t, page, "No events match.", query)
			continue
		}
		assert.Contains(t, page, "<b>"+want+"</b> event", query)
	}
	assert.Contains(t, f.get("events?state=dead&clinic=cl_b"), `<option value="cl_b" selected>cl_b (30)</option>`)
	assert.Contains(t, f.get("events?clinic=gone"), `<option value="gone" selected>gone (0)</option>`, "a clinic without events")
}

// Pages lead from the newest event to the oldest one and back, also in the other order.
func TestListsTurnPages(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	all := f.die(120)
	keys := func(page string) (ids []string) {
		for _, found := range regexp.MustCompile(`<td class="event"><a href="event\?from=[^"]*key=([^"]*)"`).FindAllStringSubmatch(page, -1) {
			text, err := url.QueryUnescape(html.UnescapeString(found[1]))
			require.NoError(t, err)
			ids = append(ids, text)
		}
		return ids
	}
	var oldest []string
	for _, d := range all {
		oldest = append(oldest, d.Key.String())
	}
	newest := slices.Clone(oldest)
	slices.Reverse(newest)
	first := f.get("events?state=dead")
	for _, want := range [][]string{newest, oldest} {
		page := first
		assert.Equal(t, want[:50], keys(page))
		assert.NotContains(t, page, "Previous page")
		page = f.get(f.link(page, "Next page"))
		page = f.get(f.link(page, "Next page"))
		assert.Equal(t, want[100:], keys(page))
		assert.NotContains(t, page, "Next page")
		page = f.get(f.link(page, "Previous page"))
		assert.Equal(t, want[50:100], keys(page))
		page = f.get(f.link(page, "Previous page"))
		assert.Equal(t, want[:50], keys(page))
		assert.NotContains(t, page, "Previous page")
		if strings.Contains(page, "Oldest first") {
			first = f.get(f.link(page, "Oldest first"))
		}
	}
}

// Midnight and the fields use the time zone of the pages.
func TestPagesUseTimeZone(t *testing.T) {
	t.Parallel()
	east := time.FixedZone("EAT", 3*3600)
	f := newFixture(t, func(_ *fixture, c *admin.Config) {
		c.Location, c.Now = east, func() time.Time { return time.Date(2026, 3, 2, 22, 30, 0, 0, time.UTC) }
	})
	page := f.get("events?since=2026-03-02T09:00")
	assert.Contains(t, page, "Dead letter since (EAT)")
	assert.Contains(t, page, `value="2026-03-02T09:00:00"`)
	midnight := f.link(page, "Since midnight")
	assert.Equal(t, "events?since=midnight", midnight)
	page = f.get(midnight)
	assert.Contains(t, page, `value="2026-03-03T00:00:00"`)
	assert.Contains(t, page, `aria-current="true">Since midnight`)
	assert.Contains(t, page, `title="in less than a second">2026-03-03 01:30:00 EAT`)
	f.repaired = true
	assert.Regexp(t, `This event was handled at <time datetime="[^"]+" title="[^"]+">[0-9: -]+ EAT</time>`, f.get(eventPath(f.accept(nil))))
}

// The search field finds an event, a list or a clinic, and the end of a finished event.
func TestFindOpensEventOrList(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	all := f.die(3)
	f.repaired = true
	handled := f.accept(nil)
	_, err := f.inbox.Discard(t.Context(), engine.Filter{Keys: []webhook.Key{all[0].Key}})
	require.NoError(t, err)
	find := func(id string) string { return f.get("find?id=" + url.QueryEscape(id)) }

	assert.Contains(t, find(" "+all[1].Key.EventID+" "), "<h1>patient.updated</h1>")
	assert.Contains(t, find(all[1].Key.EventID[:4]), "<b>2</b> events", "a part of two IDs")
	assert.Contains(t, find(all[1].ClinicID), `<option value="`+all[1].ClinicID+`" selected>`)
	assert.Contains(t, find(handled.Key.EventID), "This event was handled")
	assert.Contains(t, find(all[0].Key.EventID), "This event was discarded")
	unknown := "No waiting event or dead letter has <code>%s</code> in its key or in a request ID, or is of a clinic with this ID. No handled or discarded event on record has exactly this event ID."
	for _, id := range []string{"evt_unknown", handled.Key.EventID[1:], "clinic without stored events"} {
		assert.Contains(t, find(id), fmt.Sprintf(unknown, id))
	}
	assert.Contains(t, f.get(eventPath(handled)), "This event was handled")
	response, err := http.Get(f.url + "event?key=us/sandbox/evt_unknown/")
	assert.Contains(t, f.read(http.StatusNotFound, response, err), "No handled or discarded event on record")
	assert.Contains(t, f.get("find"), "<h1>Events</h1>")
}

// If there are many clinics, a text field suggests them.
func TestManyClinicsBecomeSuggestions(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(f *fixture, c *admin.Config) { c.Engine = crowded{f.inbox} })
	page := f.get("events")
	assert.Contains(t, page, `list="clinics"`)
	assert.Equal(t, 500, strings.Count(page, "<option>cl_"))
}

// crowded is an engine with events of many clinics.
type crowded struct{ engine.Engine }

func (crowded) Count(context.Context, engine.Filter, int) (engine.Counts, error) {
	c := engine.Counts{Total: 600, Clinics: map[string]int{}}
	for n := range 600 {
		c.Clinics["cl_"+string(rune('a'+n%26))+strings.Repeat("x", n/26)] = 1
	}
	return c, nil
}

// The overview shows the causes of dead letters, and the activity.
func TestOverviewShowsCauses(t *testing.T) {
	t.Parallel()
	now := func() time.Time { return time.Date(2026, 3, 2, 9, 30, 0, 0, time.UTC) }
	activity := &admin.Activity{Now: now}
	f := newFixture(t, func(_ *fixture, c *admin.Config) { c.Activity, c.Now = activity, now })
	for n := range 30 {
		f.accept(func(d *webhook.Delivery) {
			d.ClinicID = "cl_" + string(rune('a'+n%4))
			if n%3 == 0 {
				d.Body = nil
			}
		})
	}
	for _, result := range []webhook.Result{webhook.ResultDead, webhook.ResultFailed, webhook.ResultHandled, webhook.ResultHandled} {
		activity.AttemptEnd(t.Context(), webhook.Attempt{Result: result, Duration: 3 * time.Millisecond})
	}
	page := f.get("")
	assert.Less(t, strings.Index(page, ">unnamed error: see webhook.WithReason</a>"), strings.Index(page, ">events: "), "newest cause first")
	assert.Contains(t, page, "0 in the hour before. 1 attempt failed, 0 in the hour before. This process, since <time")
	assert.Contains(t, page, `Handled in the last hour</dt><dd><span class="big">2</span>`)
	assert.Contains(t, page, `<dt>95 %</dt><dd><b>under 4 ms</b></dd>`)
	hour := f.link(page, `1<span class="word"> dead</span><span class="hide"> letters since 09:00</span>`)
	assert.Equal(t, "events?before=2026-03-02T10%3A00%3A00Z&since=2026-03-02T09%3A00%3A00Z&state=dead", hour)
	assert.Contains(t, f.get(hour), "No events match.")
	replay := f.link(page, `<span class="hide"> unnamed error: see webhook.WithReason</span>`)
	assert.Contains(t, f.get(replay), "<b>20 dead letters</b> will be replayed if")
}

// The figures of dead letters are those of the inbox, also in a process that has just started.
func TestDeadLettersOfHourSurviveRestart(t *testing.T) {
	t.Parallel()
	shift := time.Duration(0)
	f := newFixture(t, func(_ *fixture, c *admin.Config) {
		c.Activity, c.Now = &admin.Activity{}, func() time.Time { return time.Now().Add(shift) }
	})
	f.die(3)
	assert.Contains(t, f.get(""), "3 new in the last hour, 0 in the hour before")
	assert.Contains(t, f.get("events?state=dead&since=1h"), "<b>3</b> events")
	shift = 90 * time.Minute
	assert.Contains(t, f.get(""), "0 new in the last hour, 3 in the hour before")
}

// uncaused is an engine with a dead letter without a reason and two with one.
type uncaused struct{ engine.Engine }

func (uncaused) Stats(context.Context) (engine.Stats, error) { return engine.Stats{Dead: 3}, nil }

func (uncaused) Count(_ context.Context, f engine.Filter, _ int) (c engine.Counts, err error) {
	c.Causes = map[string]engine.Cause{}
	for reason, n := range map[string]int{"": 1, "bug": 2} {
		if f.Matches(engine.Event{State: engine.StateDead, Reason: reason, Position: engine.Position{At: time.Now()}}) {
			c.Causes[reason] = engine.Cause{Events: n}
			c.Total += n
		}
	}
	return c, nil
}

func TestReplayWithoutReasonLeavesOthers(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(f *fixture, c *admin.Config) { c.Engine = uncaused{f.inbox} })
	page := f.get("")
	assert.Contains(t, f.get(f.link(page, `<span class="hide"> bug</span>`)), "Replay 2<", "control")
	assert.Contains(t, f.get(f.link(page, `<span class="hide"> no reason</span>`)), "Replay 1<")
	list := f.link(page, "no reason")
	assert.Equal(t, "events?noreason=1&state=dead", list)
	assert.Contains(t, f.get(list), "<b>1</b> event")
	assert.Contains(t, f.get(list), `<input type="hidden" name="noreason" value="1">`)
}

// The page of an event shows its failed attempts without the body.
func TestEventShowsAttempts(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	d := f.accept(waiting)
	page := f.get(eventPath(d))
	assert.Contains(t, page, `<span class="word">attempt </span>1</td>`)
	assert.Contains(t, page, `503 Service Unavailable</td><td class="id"><code>r-1</code> <button type="button" class="copy">Copy</button></td>`)
	assert.Contains(t, page, " ms</td>")
	assert.Contains(t, page, "Handle now")
	assert.NotContains(t, page, "Discard")
}

// Every page shows the name of the system, and marks production.
func TestPagesNameSystem(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(_ *fixture, c *admin.Config) { c.Name, c.Production = "us/production", true })
	d := f.die(1)[0]
	for _, path := range []string{"", "events", eventPath(d), "runs", "bulk?action=discard"} {
		page := f.get(path)
		assert.Contains(t, page, " · us/production · Webhooks</title>", path)
		assert.Contains(t, page, `<body class="production">`, path)
		assert.Contains(t, page, `<b class="stage">production</b>`, path)
	}
	assert.NotContains(t, newFixture(t, nil).get(""), `class="stage"`)
}
