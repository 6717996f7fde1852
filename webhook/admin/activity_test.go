package admin

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dispensary-go/dispensary/webhook"
)

func TestActivityCountsAttempts(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 3, 2, 9, 40, 30, 0, time.UTC)
	now := start
	a := Activity{Now: func() time.Time { return now }}
	attempt := func(result webhook.Result, took time.Duration) {
		a.AttemptEnd(t.Context(), webhook.Attempt{Result: result, Duration: took})
	}
	attempt(webhook.ResultHandled, time.Millisecond)
	attempt(webhook.ResultSkipped, 10*time.Millisecond)
	attempt(webhook.ResultFailed, 99*time.Millisecond)
	attempt(webhook.ResultDead, time.Minute)
	attempt(webhook.ResultReturned, 0)
	attempt(webhook.ResultLost, 0)

	v := a.view(now)
	assert.Equal(t, [3]int{2, 1, 1}, v.Hour)
	assert.Equal(t, [3]int{}, v.Before)
	assert.Equal(t, []int{1, 1, 2}, []int{v.Total(0), v.Total(1), v.Total(2)}, "dead, failed, handled")
	assert.Equal(t, []percentile{{"50 %", "under 11 ms"}, {"95 %", "under 65.5 s"}, {"99 %", "under 65.5 s"}}, v.Percentiles)

	now = start.Add(time.Hour)
	attempt(webhook.ResultDead, 0)
	v = a.view(now)
	assert.Equal(t, [3]int{0, 0, 1}, v.Hour, "after an hour, the first minute is in the hour before")
	assert.Equal(t, [3]int{2, 1, 1}, v.Before)

	now = start.Add(minutes * time.Minute)
	attempt(webhook.ResultHandled, 0)
	v = a.view(now)
	assert.Equal(t, []int{0, 0, 1}, []int{v.Total(0), v.Total(1), v.Total(2)}, "replaces the minute of the day before")
	assert.Equal(t, 1, a.view(now.Add(time.Minute)).Total(2))
	assert.Zero(t, a.view(start).Total(2), "ignores the future after the clock was set back")
	assert.Equal(t, percentile{"99 %", "–"}, a.view(start).Percentiles[2], "no attempts")
	attempt(webhook.ResultDead, time.Hour)
	assert.Equal(t, percentile{"99 %", "185.4 s or longer"}, a.view(now).Percentiles[2])
}

func BenchmarkActivity(b *testing.B) {
	var a Activity
	attempt := webhook.Attempt{Result: webhook.ResultFailed, Duration: time.Second}
	b.ReportAllocs()
	for b.Loop() {
		a.AttemptEnd(b.Context(), attempt)
	}
}
