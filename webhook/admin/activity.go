package admin

import (
	"context"
	"fmt"
	"math"
	"sort"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/internal/webpage"
	"github.com/dispensary-go/dispensary/webhook"
)

// Activity counts the attempts of this process to handle events, by minute, for a day. It uses
// about 240 kB of memory. The zero value is ready to use. It is safe for concurrent use.
type Activity struct {
	// Now returns the current time. Nil means [time.Now].
	Now func() time.Time

	mu      sync.Mutex
	minutes [minutes]minute // the minute n since 1970 at n % minutes
}

const minutes = 25 * 60 // the chart starts up to an hour before the last day

type minute struct {
	n         int64 // since 1970
	outcomes  [3]uint32
	durations [len(limits)]uint32
}

// The outcomes of an attempt.
const (
	outcomeHandled = iota // or skipped
	outcomeFailed         // to be retried
	outcomeDead
)

// limits are ranges of durations of attempts, each from the limit before to its own limit. A limit
// is 1.4 times the limit before, so a percentile is at most that much too high.
var limits = func() (all [37]time.Duration) {
	for n := range all {
		all[n] = time.Duration(float64(time.Millisecond) * math.Pow(2, float64(n)/2))
	}
	all[len(all)-1] = 1<<63 - 1
	return all
}()

// AttemptEnd counts an attempt. Use it as AttemptEnd of a [webhook.Observer]. It runs for less
// than a microsecond and does not allocate.
func (a *Activity) AttemptEnd(_ context.Context, attempt webhook.Attempt) {
	outcome := outcomeHandled
	switch attempt.Result {
	case webhook.ResultHandled, webhook.ResultSkipped:
	case webhook.ResultFailed:
		outcome = outcomeFailed
	case webhook.ResultDead:
		outcome = outcomeDead
	default:
		return
	}
	step := sort.Search(len(limits)-1, func(n int) bool { return attempt.Duration < limits[n] })
	n := a.now().Unix() / 60
	a.mu.Lock()
	defer a.mu.Unlock()
	m := &a.minutes[n%minutes]
	if m.n != n {
		*m = minute{n: n}
	}
	m.outcomes[outcome]++
	m.durations[step]++
}

func (a *Activity) now() time.Time {
	if a.Now == nil {
		return time.Now()
	}
	return a.Now()
}

// activityView is the activity of a day.
type activityView struct {
	webpage.Chart
	Hour, Before [3]int // outcomes of the last 60 minutes, and of the 60 before
	Percentiles  []percentile
}

// percentile is a duration under which a share of the attempts stayed.
type percentile struct {
	Name  string
	Under string // "–" without attempts
}

// percentiles returns percentiles of the counted durations.
func percentiles(durations [len(limits)]uint32) (all []percentile) {
	var total uint64
	for _, count := range durations {
		total += uint64(count)
	}
	for _, share := range []uint64{50, 95, 99} {
		p := percentile{fmt.Sprintf("%d %%", share), "–"}
		sum := uint64(0)
		for n, count := range durations {
			if sum += uint64(count); total > 0 && 100*sum >= share*total {
				p.Under = "under " + took(limits[n])
				if n == len(limits)-1 {
					p.Under = took(limits[n-1]) + " or longer"
				}
				break
			}
		}
		all = append(all, p)
	}
	return all
}

// view returns the activity until now, in the location of now.
func (a *Activity) view(now time.Time) *activityView {
	v := &activityView{Chart: webpage.NewChart(now,
		webpage.Series{Name: "became dead letters", Class: "failed"},
		webpage.Series{Name: "failed, to be retried", Class: "due"},
		webpage.Series{Name: "handled", Class: "done"},
	)}
	var durations [len(limits)]uint32
	last := now.Unix() / 60
	a.mu.Lock()
	for _, m := range a.minutes {
		at := time.Unix(60*m.n, 0)
		if at.Before(v.Start) || m.n > last {
			continue
		}
		for outcome, count := range m.outcomes {
			v.Add(len(v.Series)-1-outcome, at, int(count))
			switch {
			case m.n > last-60:
				v.Hour[outcome] += int(count)
			case m.n > last-120:
				v.Before[outcome] += int(count)
			}
		}
		for step, count := range m.durations {
			durations[step] += count
		}
	}
	a.mu.Unlock()
	v.Percentiles = percentiles(durations)
	return v
}
