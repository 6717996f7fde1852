package webhook_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
)

// alarmed is an alarm on a fake clock. It records the reported outages.
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

// after advances the clock by d and observes o.
func (a *alarmed) after(d time.Duration, o webhook.Observation) {
	a.now = a.now.Add(d)
	a.Observe(context.Background(), o)
}

var (
	down     = webhook.Observation{Outcome: webhook.OutcomeUnavailable, Err: webhook.ErrInboxTimeout}
	mismatch = webhook.Observation{Outcome: webhook.OutcomeRefused, Err: webhook.ErrSignatureMismatch}
	accepted = webhook.Observation{Outcome: webhook.OutcomeAccepted}
)

func rejected(err error) webhook.Observation {
	return webhook.Observation{Outcome: webhook.OutcomeRefused, Err: err}
}

func TestAlarmReportsEachAge(t *testing.T) {
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
	assert.Len(t, a.told, 6, "the end must be reported once")
}

func TestAlarmReportsSkippedAgesOnce(t *testing.T) {
	t.Parallel()
	a := newAlarmed(t, webhook.AlarmConfig{})
	a.after(0, down)
	a.after(time.Second, down)
	a.after(5*time.Hour, down)
	require.Len(t, a.told, 1)
	a.after(time.Hour, down)
	assert.Len(t, a.told, 1)
	a.after(8*time.Hour, down)
	assert.Len(t, a.told, 2)
}

func TestAlarmCountsFailures(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		o      webhook.Observation
		counts bool
	}{
		"inbox":     {down, true},
		"signature": {mismatch, false},
		"body":      {webhook.Observation{Outcome: webhook.OutcomeRefused, Err: events.ErrMalformed}, true},
		"no event":  {webhook.Observation{Outcome: webhook.OutcomeRefused, Err: events.ErrNoEvent}, true},
		"stranger":  {webhook.Observation{Outcome: webhook.OutcomeRefused, Err: webhook.ErrSignatureMissing}, false},
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

// If an outage ends while its warning is being sent, the end is reported after the warning. No
// request waits for the Notify of another request.
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

// A panic of Notify loses only its own report.
func TestAlarmSurvivesNotifyPanic(t *testing.T) {
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

func TestAlarmNeedsConsecutiveFailures(t *testing.T) {
	t.Parallel()
	a := newAlarmed(t, webhook.AlarmConfig{})
	for range 20 {
		a.after(time.Hour, down)
		a.after(time.Hour, down)
		a.after(time.Minute, webhook.Observation{Outcome: webhook.OutcomeDuplicate})
	}
	assert.Empty(t, a.told)
}

// Anybody can send rejected requests, so a few of them are not an outage.
func TestAlarmIgnoresStrangers(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]webhook.Observation{
		"mismatch":       mismatch,
		"missing":        rejected(webhook.ErrSignatureMissing),
		"malformed":      rejected(webhook.ErrSignatureMalformed),
		"too old":        rejected(webhook.ErrTimestampTooOld),
		"too new":        rejected(webhook.ErrTimestampTooNew),
		"unknown tenant": rejected(webhook.ErrUnknownTenant),
		"unknown path":   rejected(webhook.ErrUnknownPath),
		"large body":     rejected(webhook.ErrBodyTooLarge),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAlarmed(t, webhook.AlarmConfig{})
			for range 4 * 60 {
				a.after(time.Minute, o)
				_, ok := a.Outage()
				assert.False(t, ok)
			}
			if doubt, _ := a.Outage(); name != "malformed" {
				assert.Equal(t, webhook.OutageKindRejecting, doubt.Kind)
				assert.Equal(t, 4*60, doubt.Failures)
			}
			a.after(time.Minute, accepted)
			assert.Empty(t, a.told)
			none, _ := a.Outage()
			assert.Zero(t, none)
		})
	}
}

// Without Confirm, rejected requests are an outage only after half a day without an event.
func TestAlarmReportsSustainedRejections(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		o     webhook.Observation
		every time.Duration
		is    bool
	}{
		"signed, each minute":       {mismatch, time.Minute, true},
		"signed, each two hours":    {mismatch, 2 * time.Hour, true},
		"tenant, each minute":       {rejected(webhook.ErrUnknownTenant), time.Minute, true},
		"path, each minute":         {rejected(webhook.ErrUnknownPath), time.Minute, true},
		"unsigned, each minute":     {rejected(webhook.ErrSignatureMissing), time.Minute, true},
		"unsigned, each two hours":  {rejected(webhook.ErrSignatureMissing), 2 * time.Hour, false},
		"malformed, each minute":    {rejected(webhook.ErrSignatureMalformed), time.Minute, false},
		"unsigned path, two hourly": {rejected(fmt.Errorf("%w: %w", webhook.ErrUnknownPath, webhook.ErrSignatureMissing)), 2 * time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAlarmed(t, webhook.AlarmConfig{})
			for passed := time.Duration(0); passed < 24*time.Hour; passed += c.every {
				a.after(c.every, c.o)
			}
			outage, ok := a.Outage()
			assert.Equal(t, c.is, ok)
			assert.Equal(t, c.is, len(a.told) > 0)
			if !c.is {
				return
			}
			assert.Equal(t, webhook.OutageKindRejecting, outage.Kind)
			assert.GreaterOrEqual(t, a.told[0].Age(), 12*time.Hour)
			a.after(time.Minute, accepted)
			_, ok = a.Outage()
			assert.False(t, ok)
			assert.True(t, a.told[len(a.told)-1].Over)
		})
	}
}

// Confirm decides if rejected requests came from the platform.
func TestAlarmConfirmsRejections(t *testing.T) {
	t.Parallel()
	var asked []webhook.Outage
	var answers []bool // false after the last
	var err error
	a := newAlarmed(t, webhook.AlarmConfig{Confirm: func(ctx context.Context, o webhook.Outage) (bool, error) {
		_, limited := ctx.Deadline()
		assert.True(t, limited)
		asked = append(asked, o)
		answer := len(answers) > 0 && answers[0]
		answers = answers[min(1, len(answers)):]
		return answer, err
	}})
	malformed := rejected(webhook.ErrSignatureMalformed)
	for range 16 {
		a.after(time.Minute, malformed)
	}
	require.Len(t, asked, 1, "Confirm must be called at the age of 15 minutes")
	assert.Equal(t, webhook.OutageKindRejecting, asked[0].Kind)
	assert.Equal(t, 15*time.Minute, asked[0].Age())
	assert.Empty(t, a.told)
	_, ok := a.Outage()
	assert.False(t, ok)

	// The requests were forged, so a new series begins, and Confirm is called for it.
	answers = []bool{true}
	for range 16 {
		a.after(time.Minute, mismatch)
	}
	require.Len(t, asked, 2)
	require.Len(t, a.told, 1)
	outage, ok := a.Outage()
	assert.True(t, ok)
	assert.Equal(t, now.Add(17*time.Minute), outage.Since, "the forged requests must not count")
	for range 5 * 60 {
		a.after(time.Minute, mismatch)
	}
	assert.Len(t, asked, 2, "a confirmed outage needs no further call")
	assert.Len(t, a.told, 3, "also after 1 and 4 hours")
	a.after(time.Minute, accepted)
	require.Len(t, a.told, 4)
	assert.True(t, a.told[3].Over)

	// The delivery log cannot be read, so the requests decide.
	err = assert.AnError
	for range 13 * 60 {
		a.after(time.Minute, mismatch)
	}
	assert.Len(t, asked, 2+3, "once for each age, until the requests decide")
	require.Len(t, a.told, 5)
	assert.GreaterOrEqual(t, a.told[4].Age(), 12*time.Hour)
}

// Confirm must not block the count of other requests. Its result is ignored if an event was
// accepted meanwhile.
func TestAlarmCountsWhileConfirming(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sent := make(chan struct{})
		told := 0
		alarm, err := webhook.NewAlarm(webhook.AlarmConfig{
			MinFailures: 1, After: []time.Duration{0}, Notify: func(context.Context, webhook.Outage) { told++ },
			Confirm: func(context.Context, webhook.Outage) (bool, error) { <-sent; return true, nil },
		})
		require.NoError(t, err)
		go alarm.Observe(t.Context(), mismatch)
		synctest.Wait()
		alarm.Observe(t.Context(), mismatch)
		alarm.Observe(t.Context(), accepted)
		close(sent)
		synctest.Wait()
		_, ok := alarm.Outage()
		assert.False(t, ok)
		assert.Zero(t, told)
	})
}

// Constantly forged requests must not hide a real outage, and must not cause many calls of
// Confirm.
func TestAlarmConfirmsAgainAfterForgedRequests(t *testing.T) {
	t.Parallel()
	asked, failing := 0, false
	a := newAlarmed(t, webhook.AlarmConfig{
		After:   []time.Duration{0, time.Hour},
		Confirm: func(context.Context, webhook.Outage) (bool, error) { asked++; return failing, nil },
	})
	for range 24 * 60 {
		a.after(time.Minute, mismatch)
	}
	assert.LessOrEqual(t, asked, 24*12+1)
	assert.Empty(t, a.told)
	failing = true
	for range 10 {
		a.after(time.Minute, mismatch)
	}
	assert.Len(t, a.told, 1)
}

// A correctly signed request shows that the platform's requests are not rejected.
func TestAlarmEndsRejectionsOnSignedRequest(t *testing.T) {
	t.Parallel()
	a := newAlarmed(t, webhook.AlarmConfig{})
	for n := range 13 * 60 {
		a.after(time.Minute, mismatch)
		if n%(6*60) == 0 {
			a.after(0, webhook.Observation{Outcome: webhook.OutcomeUnavailable, Err: webhook.ErrInbox, Key: orderKey})
		}
	}
	for _, outage := range a.told {
		assert.Equal(t, webhook.OutageKindFailing, outage.Kind)
	}
}

func TestNewAlarmRejectsInvalidConfig(t *testing.T) {
	t.Parallel()
	notify := func(context.Context, webhook.Outage) {}
	for _, c := range []webhook.AlarmConfig{
		{}, {Notify: notify, MinFailures: -1}, {Notify: notify, After: []time.Duration{}}, {Notify: notify, After: []time.Duration{-1}},
	} {
		_, err := webhook.NewAlarm(c)
		require.Error(t, err)
	}
}
