package webhook_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
)

// alarmed is an alarm with what it reported, on a fake clock.
type alarmed struct {
	*webhook.Alarm
	now  time.Time
	told []webhook.Outage
}

func newAlarmed(t *testing.T, c webhook.AlarmConfig) *alarmed {
	t.Helper()
	a := &alarmed{now: now}
	c.Now = func() time.Time { return a.now }
	c.Notify = func(_ context.Context, o webhook.Outage) { a.told = append(a.told, o) }
	alarm, err := webhook.NewAlarm(c)
	require.NoError(t, err)
	a.Alarm = alarm
	return a
}

// after lets time pass and something happen.
func (a *alarmed) after(d time.Duration, o webhook.Observation) {
	a.now = a.now.Add(d)
	a.Observe(context.Background(), o)
}

var (
	down     = webhook.Observation{Outcome: webhook.OutcomeUnavailable, Err: webhook.ErrInboxTimeout}
	mismatch = webhook.Observation{Outcome: webhook.OutcomeRefused, Err: webhook.ErrSignatureMismatch}
	accepted = webhook.Observation{Outcome: webhook.OutcomeAccepted}
)

func TestAlarmReportsOutagesAsTheyAge(t *testing.T) {
	t.Parallel()
	a := newAlarmed(t, webhook.AlarmConfig{})
	for range 23 * 12 {
		a.after(5*time.Minute, down)
	}
	require.Len(t, a.told, 5)
	for i, age := range []time.Duration{15 * time.Minute, time.Hour, 4 * time.Hour, 12 * time.Hour, 20 * time.Hour} {
		assert.Equal(t, age, a.told[i].Age())
		assert.Equal(t, int(age/(5*time.Minute))+1, a.told[i].Failures)
		assert.Equal(t, now.Add(5*time.Minute), a.told[i].Since)
		require.ErrorIs(t, a.told[i].Reason, webhook.ErrInboxTimeout)
	}
	outage, ok := a.Outage()
	assert.True(t, ok)
	assert.Equal(t, 23*12, outage.Failures)

	a.after(time.Minute, accepted)
	require.Len(t, a.told, 6)
	assert.True(t, a.told[5].Over)
	_, ok = a.Outage()
	assert.False(t, ok)
	a.after(time.Minute, accepted)
	assert.Len(t, a.told, 6, "it is over once")
}

func TestAlarmReportsSkippedAgesOnce(t *testing.T) {
	t.Parallel()
	a := newAlarmed(t, webhook.AlarmConfig{})
	a.after(0, down)
	a.after(time.Second, mismatch)
	a.after(5*time.Hour, down)
	require.Len(t, a.told, 1)
	a.after(time.Hour, down)
	assert.Len(t, a.told, 1)
	a.after(8*time.Hour, down)
	assert.Len(t, a.told, 2)
}

func TestAlarmKnowsWhatCounts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		o      webhook.Observation
		counts bool
	}{
		"inbox":     {down, true},
		"signature": {mismatch, true},
		"body":      {webhook.Observation{Outcome: webhook.OutcomeRefused, Err: events.ErrMalformed}, true},
		"stranger":  {webhook.Observation{Outcome: webhook.OutcomeRefused, Err: webhook.ErrSignatureMissing}, false},
		"browser":   {webhook.Observation{Outcome: webhook.OutcomeRefused, Err: webhook.ErrMethod}, false},
		"probe":     {webhook.Observation{Outcome: webhook.OutcomeProbe}, false},
	} {
		a := newAlarmed(t, webhook.AlarmConfig{MinFailures: 2, After: []time.Duration{time.Hour, time.Minute}})
		for range 3 {
			a.after(time.Minute, c.o)
		}
		_, ok := a.Outage()
		assert.Equal(t, c.counts, ok, name)
		assert.Equal(t, c.counts, len(a.told) > 0, name)
	}
}

// An outage that is over while its warning is being sent is reported after the warning, and
// no request waits for that of another one.
func TestAlarmReportsInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sent := make(chan struct{})
		var over []bool
		alarm, err := webhook.NewAlarm(webhook.AlarmConfig{
			MinFailures: 1, After: []time.Duration{0},
			Notify: func(_ context.Context, o webhook.Outage) {
				if !o.Over {
					<-sent
				}
				over = append(over, o.Over)
			},
		})
		require.NoError(t, err)
		go alarm.Observe(t.Context(), down)
		synctest.Wait()
		alarm.Observe(t.Context(), accepted)
		close(sent)
		synctest.Wait()
		assert.Equal(t, []bool{false, true}, over)
	})
}

// A Notify that panics costs its own report, and no other.
func TestAlarmSurvivesItsNotify(t *testing.T) {
	t.Parallel()
	var over []bool
	alarm, err := webhook.NewAlarm(webhook.AlarmConfig{
		MinFailures: 1, After: []time.Duration{0},
		Notify: func(_ context.Context, o webhook.Outage) {
			if !o.Over {
				panic("no mail")
			}
			over = append(over, o.Over)
		},
	})
	require.NoError(t, err)
	assert.PanicsWithValue(t, "no mail", func() { alarm.Observe(t.Context(), down) })
	alarm.Observe(t.Context(), accepted)
	assert.Equal(t, []bool{true}, over)
}

func TestAlarmNeedsSeveralFailuresInARow(t *testing.T) {
	t.Parallel()
	a := newAlarmed(t, webhook.AlarmConfig{})
	for range 20 {
		a.after(time.Hour, down)
		a.after(time.Hour, down)
		a.after(time.Minute, webhook.Observation{Outcome: webhook.OutcomeDuplicate})
	}
	assert.Empty(t, a.told)
}

func TestNewAlarmRefuses(t *testing.T) {
	t.Parallel()
	notify := func(context.Context, webhook.Outage) {}
	for _, c := range []webhook.AlarmConfig{
		{}, {Notify: notify, MinFailures: -1}, {Notify: notify, After: []time.Duration{}}, {Notify: notify, After: []time.Duration{-1}},
	} {
		_, err := webhook.NewAlarm(c)
		require.Error(t, err)
	}
}
