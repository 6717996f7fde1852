package admin_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/admin"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// changes are what the observer saw.
type changes struct {
	replayed, discarded []admin.Change
	by                  []any
}

func (c *changes) observer() admin.Observer {
	note := func(to *[]admin.Change) func(*http.Request, admin.Change) {
		return func(r *http.Request, change admin.Change) {
			*to = append(*to, change)
			c.by = append(c.by, r.Context().Value(staff{}))
		}
	}
	return admin.Observer{Replayed: note(&c.replayed), Discarded: note(&c.discarded)}
}

func (f *fixture) dead() int {
	f.Helper()
	stats, err := f.inbox.Stats(f.Context())
	require.NoError(f, err)
	return stats.Dead
}

// One dead letter is replayed by a button of its row, and discarded after a page that
// asks once more.
func TestOneByOne(t *testing.T) {
	t.Parallel()
	var seen changes
	f := newFixture(t, func(_ *fixture, c *admin.Config) { c.Observer = seen.observer() })
	all := f.die(3)
	f.repaired = true
	page := f.press(f.get("dead"), "bulk")
	assert.Contains(t, page, "<b>1 was replayed.</b>")
	again := <-f.made
	assert.Equal(t, all[0].Key, again.Key, "the oldest is the first on the page")
	assert.Equal(t, webhook.ResultHandled, again.Result)

	page = f.get("bulk?action=discard&key=" + url.QueryEscape(all[1].Key.String()))
	assert.Contains(t, page, "nothing has been discarded yet")
	assert.Equal(t, 2, f.dead())
	page = f.press(page, "bulk")
	assert.Contains(t, page, "<b>1 was discarded.</b>")
	assert.Equal(t, 1, f.dead())

	page = f.post(http.StatusOK, "bulk", url.Values{"action": {"replay"}, "key": {all[1].Key.String()}})
	assert.Contains(t, page, "It is no dead letter any more.")
	require.Len(t, seen.replayed, 2)
	require.Len(t, seen.discarded, 1)
	assert.Equal(t, []webhook.Key{all[0].Key}, seen.replayed[0].Filter.Keys)
	assert.Equal(t, [3]int{1, 0, 1}, [3]int{seen.replayed[0].Count, seen.replayed[1].Count, seen.discarded[0].Count})
	assert.Equal(t, []any{"jo", "jo", "jo"}, seen.by)
}

// Many are counted in a dry run, up to a number, and those are changed and no others.
func TestBulk(t *testing.T) {
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
	assert.Contains(t, page, "<b>20</b> dead letters would be, the oldest; 10 others match as well.")
	assert.Contains(t, page, `cl_1 <b class="number">20</b>`)
	assert.Equal(t, 40, f.dead(), "a dry run changes nothing")
	late := f.accept(func(d *webhook.Delivery) { d.ClinicID = "cl_1" })

	f.repaired = true
	page = f.press(page, "bulk")
	assert.Contains(t, page, "<b>20 were replayed.</b> 11 others match now.")
	for range 20 {
		assert.Equal(t, webhook.ResultHandled, (<-f.made).Result)
	}
	assert.Equal(t, 21, f.dead())
	require.Len(t, seen.replayed, 1)
	assert.Equal(t, 20, seen.replayed[0].Count)
	assert.Equal(t, "cl_1", seen.replayed[0].Filter.ClinicID)

	page = f.get(f.link(page, "these too"))
	assert.Contains(t, page, "<b>11</b> dead letters would be")
	page = f.press(f.get("bulk?action=discard&clinic=cl_1"), "bulk")
	assert.Contains(t, page, "<b>11 were discarded.</b> None is left.")
	_, err := f.inbox.Open(t.Context(), late.Key)
	require.ErrorIs(t, err, engine.ErrNotStored)
	assert.Equal(t, 10, f.dead(), "those of the other clinic")
	assert.Contains(t, f.get("bulk?action=replay&clinic=cl_1"), "No dead letter is like this.")
	f.post(http.StatusBadRequest, "bulk", url.Values{"action": {"discard"}})
	f.post(http.StatusBadRequest, "bulk", url.Values{"action": {"discard"}, "clinic": {"cl_2"}})
	assert.Equal(t, 10, f.dead(), "without a dry run nothing is changed")
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
	case most > 0:
		return engine.Counts{Total: min(most, m.total)}, nil
	}
	return engine.Counts{Total: m.total}, nil
}

func TestOthersAreCountedToLimit(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(f *fixture, c *admin.Config) { c.Engine = many{f.inbox, 60_000} })
	until := url.QueryEscape(engine.Position{At: time.Now()}.String())
	assert.Contains(t, f.get("bulk?action=replay&done=7&until="+until), "<b>7 were replayed.</b> 20,000 or more others match now.")
	assert.Contains(t, f.get("bulk?action=replay&most=30000"), "<b>30,000</b> dead letters would be, the oldest; 20,000 or more others match as well.")
	assert.Contains(t, f.get("bulk?action=replay&most=50000"), "10,000 others match as well.")
	assert.Contains(t, f.get(""), "The oldest 20,000 are counted here.")
	assert.Contains(t, f.get("dead"), "By reason, type and clinic, the first 20,000")
}

// slow is an engine that replays a few, and then has run out of time, or fails.
type slow struct {
	engine.Engine
	few int
	err error
}

func (s *slow) Replay(ctx context.Context, f engine.Filter) (int, error) {
	page, err := s.List(ctx, f, engine.Position{}, s.few)
	if err != nil || len(page) == 0 {
		return 0, err
	}
	for _, e := range page {
		f.Keys = append(f.Keys, e.Key)
	}
	n, err := s.Engine.Replay(ctx, f)
	return n, errors.Join(err, s.err)
}

// What a request has no time for is continued by the next, from the same address.
func TestBulkContinues(t *testing.T) {
	t.Parallel()
	var seen changes
	held := &slow{few: 10, err: context.DeadlineExceeded}
	f := newFixture(t, func(f *fixture, c *admin.Config) {
		held.Engine, c.Engine, c.Observer = f.inbox, held, seen.observer()
	})
	f.die(25)
	page := f.press(f.get("bulk?action=replay"), "bulk") // they die again
	assert.Contains(t, page, "<b>10 were replayed.</b>")
	assert.Contains(t, page, "<b>15</b> are left.")
	for range 10 {
		assert.Equal(t, webhook.ResultDead, (<-f.made).Result)
	}
	f.repaired = true
	page = f.press(page, "bulk")
	assert.Contains(t, page, "<b>20 were replayed.</b>")
	page = f.press(page, "bulk")
	assert.Contains(t, page, "<b>25 were replayed.</b> 10 others match now.")
	for range 15 {
		assert.Equal(t, webhook.ResultHandled, (<-f.made).Result)
	}
	assert.Equal(t, 10, f.dead(), "what has died again is not replayed again")
	require.Len(t, seen.replayed, 3)
	require.ErrorIs(t, seen.replayed[0].Err, context.DeadlineExceeded)

	held.err = errors.New("the database is down")
	page = f.get("bulk?action=replay")
	answer, err := http.PostForm(f.url+"bulk", url.Values{"action": {"replay"}, "until": {untilOf(page)}})
	page = f.read(http.StatusInternalServerError, answer, err)
	assert.Contains(t, page, "10 were replayed, and then: the database is down")
	require.ErrorIs(t, seen.replayed[3].Err, held.err)
}

func untilOf(page string) string {
	_, after, _ := strings.Cut(page, `name="until" value="`)
	until, _, _ := strings.Cut(after, `"`)
	return until
}
