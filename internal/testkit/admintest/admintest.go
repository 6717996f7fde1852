// Package admintest looks at the pages of webhook/admin, and replays through them, with
// as many dead letters as a bad night leaves, on any engine.
package admintest

import (
	"context"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/testkit/receivertest"
	"github.com/dispensary-go/dispensary/internal/testkit/testsize"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/admin"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// night is an inbox of dead letters.
type night struct {
	work     webhook.Work
	made     chan struct{} // an attempt each
	repaired atomic.Bool

	mu      sync.Mutex
	handled map[string]int // how often, by event, once it was repaired
}

// newNight makes the work of an inbox whose events die, three in ten of another cause,
// until repaired is set.
func newNight(n int) *night {
	s := &night{made: make(chan struct{}, 3*n), handled: map[string]int{}}
	s.work = webhook.Work{
		Workers: 8,
		Handle: func(_ context.Context, e events.Event) error {
			if !s.repaired.Load() {
				if e.ID[len(e.ID)-1] < '7' {
					return webhook.Permanent(context.DeadlineExceeded)
				}
				return webhook.Permanent(assert.AnError)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			s.handled[e.ID]++
			return nil
		},
		Observer: webhook.Observer{AttemptEnd: func(context.Context, webhook.Attempt) { s.made <- struct{}{} }},
	}
	return s
}

// reason is that of seven in ten.
var reason = url.QueryEscape("permanent: " + context.DeadlineExceeded.Error())

// fill gives an inbox n events, and waits until all are dead letters.
func (s *night) fill(t testing.TB, inbox webhook.Inbox, n int) {
	t.Helper()
	numbers := make(chan int)
	var senders sync.WaitGroup
	for range receivertest.Senders {
		senders.Go(func() {
			for number := range numbers {
				d := receivertest.NewDelivery()
				d.Key.EventID, d.Body = fmt.Sprint("evt_", number), receivertest.Body(number, "in_1")
				d.ClinicID = fmt.Sprint("cl_", number%40)
				_, err := inbox.Accept(context.Background(), d)
				assert.NoError(t, err)
			}
		})
	}
	for number := range n {
		numbers <- number
	}
	close(numbers)
	senders.Wait()
	for range n {
		<-s.made
	}
}

// ReplayedOnce replays many dead letters of one reason, up to a number, through the pages:
// the first request runs out of time in the middle, the engine is restarted if it can be,
// and the next request goes on from the same address. Each is handled once more, the
// others are not, and to send the first form again changes nothing. Open opens the
// engine, and again for the restart.
func ReplayedOnce(t *testing.T, restarts bool, open func(webhook.Work) engine.Engine) {
	t.Helper()
	total, most := testsize.Of(600, 10_000), testsize.Of(300, 5_000)
	s := newNight(total)
	inbox := open(s.work)
	s.fill(t, inbox, total)
	p := newPages(t, &interrupted{inbox, int32(most / 200)})
	dry := p.get(fmt.Sprintf("bulk?action=replay&most=%d&reason=%s", most, reason))
	require.Regexp(t, `<b>[\d,]+</b> dead letters would be`, dry)

	s.repaired.Store(true)
	address := p.press(dry)
	left := p.get(address)
	require.Regexp(t, `<b>[\d,]+ were replayed\.</b>[^!]*<b>[\d,]+</b> are left`, left)
	if restarts {
		require.NoError(t, inbox.Close(context.Background()))
		inbox = open(s.work)
	}
	p = newPages(t, inbox)
	address = p.press(p.get(address))
	assert.Regexp(t, `<b>[\d,]+ were replayed\.</b> [\d,]+ others match now\.`, p.get(address))
	assert.Contains(t, p.get(p.press(dry)), "0 were replayed.", "the form of the dry run, once more")

	s.settle(t, inbox)
	s.mu.Lock()
	defer s.mu.Unlock()
	assert.Len(t, s.handled, most)
	for id, times := range s.handled {
		assert.Equal(t, 1, times, id)
		assert.Less(t, id[len(id)-1:], "7", "another reason")
	}
	stats, err := inbox.Stats(t.Context())
	require.NoError(t, err)
	assert.Equal(t, total-most, stats.Dead)
}

// settle waits until nothing waits any more.
func (s *night) settle(t *testing.T, inbox engine.Engine) {
	t.Helper()
	for {
		stats, err := inbox.Stats(t.Context())
		require.NoError(t, err)
		if stats.Waiting+stats.Running == 0 {
			return
		}
		<-s.made
	}
}

// interrupted is an engine whose replays have time for so many looks at their context.
type interrupted struct {
	engine.Engine
	looks int32
}

func (i *interrupted) Replay(ctx context.Context, f engine.Filter) (int, error) {
	limited := &limited{Context: ctx}
	limited.looks.Store(i.looks)
	return i.Engine.Replay(limited, f)
}

// limited is a context whose deadline is a number of looks at it.
type limited struct {
	context.Context
	looks atomic.Int32
}

func (l *limited) Err() error {
	if l.looks.Add(-1) < 0 {
		return context.DeadlineExceeded
	}
	return l.Context.Err()
}

// pages are those of a handler, without a socket.
type pages struct {
	testing.TB
	handler *admin.Handler
}

func newPages(t testing.TB, inbox engine.Engine) *pages {
	t.Helper()
	handler, err := admin.New(admin.Config{Engine: inbox})
	require.NoError(t, err)
	return &pages{t, handler}
}

func (p *pages) get(path string) string {
	p.Helper()
	w := httptest.NewRecorder()
	p.handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/"+path, nil))
	require.Equal(p, http.StatusOK, w.Code, path)
	return w.Body.String()
}

var hidden = regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)">`)

// press sends the form of a page that changes something, and returns where it leads.
func (p *pages) press(page string) (address string) {
	p.Helper()
	_, form, found := strings.Cut(page, `method="post" action="bulk">`)
	require.True(p, found, "there is nothing to press")
	form, _, _ = strings.Cut(form, "</form>")
	values := url.Values{}
	for _, field := range hidden.FindAllStringSubmatch(form, -1) {
		values.Add(html.UnescapeString(field[1]), html.UnescapeString(field[2]))
	}
	r := httptest.NewRequest(http.MethodPost, "/bulk", strings.NewReader(values.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	p.handler.ServeHTTP(w, r)
	require.Equal(p, http.StatusSeeOther, w.Code)
	return w.Header().Get("Location")
}

// BenchmarkPages measures pages of 10,000 dead letters.
func BenchmarkPages(b *testing.B, open func(webhook.Work) engine.Engine) {
	b.Helper()
	const total = 10_000
	s := newNight(total)
	inbox := open(s.work)
	s.fill(b, inbox, total)
	p := newPages(b, inbox)
	for _, page := range []struct{ name, path string }{
		{"overview", ""}, {"first page", "dead"}, {"of a reason", "dead?reason=" + reason}, {"of a clinic", "dead?clinic=cl_7"},
		{"dry run", "bulk?action=replay&most=5000&reason=" + reason}, {"event", "event?key=us/sandbox/evt_77/in_1"},
	} {
		b.Run(page.name, func(b *testing.B) {
			for b.Loop() {
				p.get(page.path)
			}
		})
	}
}
