package enginetest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/webhook"
)

// attempt is a started attempt. An engine records the outcome before it reports it, so the
// next attempt of the event may be reported first.
type attempt struct {
	webhook.Attempt
	reported bool
	lost     bool // its engine crashed, so it may never be reported
}

// attemptLog records the attempts of all engines of a test.
type attemptLog struct {
	t        *testing.T
	patience time.Duration

	mu       sync.Mutex
	attempts []webhook.Attempt          // in the order of their reports
	begun    map[webhook.Key][]*attempt // by event, in the order of their starts
}

// attemptKey is the context key of an attempt.
type attemptKey struct{}

func (l *attemptLog) start(ctx context.Context, a webhook.Attempt) context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	began := &attempt{Attempt: a}
	l.begun[a.Key] = append(l.begun[a.Key], began)
	return context.WithValue(ctx, attemptKey{}, began)
}

func (l *attemptLog) end(ctx context.Context, a webhook.Attempt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	began := ctx.Value(attemptKey{}).(*attempt)
	began.Attempt, began.reported = a, true
	l.attempts = append(l.attempts, a)
}

// lose marks all attempts so far, because their engine crashed.
func (l *attemptLog) lose() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, attempts := range l.begun {
		for _, a := range attempts {
			a.lost = true
		}
	}
}

// eventually waits until holds returns true. It calls holds with l.mu locked.
func (l *attemptLog) eventually(what string, holds func() bool) {
	l.t.Helper()
	require.Eventually(l.t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return holds()
	}, l.patience, time.Millisecond, what)
}

// waitAttempts waits until n attempts of an event were reported.
func (l *attemptLog) waitAttempts(n int, d webhook.Delivery) {
	l.t.Helper()
	l.eventually("attempts", func() bool { return len(l.ofLocked(d)) >= n })
}

// waitFor waits until each event has the result and its earlier attempts were reported.
func (l *attemptLog) waitFor(result webhook.Result, deliveries ...webhook.Delivery) {
	l.t.Helper()
	l.eventually(string(result), func() bool {
		for len(deliveries) > 0 && l.cameTo(result, deliveries[0]) {
			deliveries = deliveries[1:]
		}
		return len(deliveries) == 0
	})
}

func (l *attemptLog) cameTo(result webhook.Result, d webhook.Delivery) bool {
	for _, a := range l.begun[d.Key] {
		switch {
		case a.reported && a.Result == result:
			return true
		case !a.reported && !a.lost:
			return false
		}
	}
	return false
}

// of returns the reported attempts of an event, in the order of their starts.
func (l *attemptLog) of(d webhook.Delivery) []webhook.Attempt {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ofLocked(d)
}

// ofLocked is of for a caller with l.mu locked.
func (l *attemptLog) ofLocked(d webhook.Delivery) []webhook.Attempt {
	var of []webhook.Attempt
	for _, a := range l.begun[d.Key] {
		if a.reported {
			of = append(of, a.Attempt)
		}
	}
	return of
}

// results returns the result of each reported attempt of an event.
func (l *attemptLog) results(d webhook.Delivery) []webhook.Result {
	var results []webhook.Result
	for _, a := range l.of(d) {
		results = append(results, a.Result)
	}
	return results
}
