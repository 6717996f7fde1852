package admin

import (
	"context"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/internal/webpage"
	"github.com/dispensary-go/dispensary/webhook"
)

// Activity counts the attempts of this process to handle events, by minute, for a day. It uses
// about 60 kB of memory. The zero value is ready to use. It is safe for concurrent use.
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
	durations [len(steps)]uint32
}

// The outcomes of an attempt.
const (
	outcomeHandled = iota // or skipped
	outcomeFailed         // to be retried
	outcomeDead
)

// steps are ranges of durations of attempts, each from the limit before to its own limit.
var steps = [...]struct {
	Name  string
	limit time.Duration
}{
	{"under 10 ms", 10 * time.Millisecond},
	{"under 100 ms", 100 * time.Millisecond},
	{"under 1 s", time.Second},
	{"under 10 s", 10 * time.Second},
	{"longer", 1<<63 - 1},
}

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
	step := 0
	for attempt.Duration >= steps[step].limit {
		step++
	}
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
	Durations    []durationView
}

type durationView struct {
	Name  string
	Count int
	Width int // of the bar, out of 100
}

// view returns the activity until now, in the location of now.
func (a *Activity) view(now time.Time) *activityView {
	v := &activityView{Chart: webpage.NewChart(now,
		webpage.Series{Name: "became dead letters", Class: "failed"},
		webpage.Series{Name: "failed, to be retried", Class: "due"},
		webpage.Series{Name: "handled", Class: "done"},
	)}
	for _, step := range steps {
		v.Durations = append(v.Durations, durationView{Name: step.Name})
	}
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
			v.Durations[step].Count += int(count)
		}
	}
	a.mu.Unlock()
	most := 1
	for _, d := range v.Durations {
		most = max(most, d.Count)
	}
	for n := range v.Durations {
		v.Durations[n].Width = 100 * v.Durations[n].Count / most
	}
	return v
}
