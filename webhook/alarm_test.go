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

// outage reports whether there is an outage.
func (a *alarmed) outage() bool {
	current, _ := a.Outages()
	return len(current) > 0
}

var (
	down     = webhook.Observation{Outcome: webhook.OutcomeUnavailable, Err: webhook.ErrInboxTimeout}
	mismatch = webhook.Observation{Outcome: webhook.OutcomeRejected, Err: webhook.ErrSignatureMismatch}
	accepted = webhook.Observation{Outcome: webhook.OutcomeAccepted}
)

func rejected(err error) webhook.Observation {
	return webhook.Observation{Outcome: webhook.OutcomeRejected, Err: err}
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
	outage, _ := a.Outages()
	require.Len(t, outage, 1)
	assert.Equal(t, 23*12, outage[0].Failures)

	a.after(time.Minute, accepted)
	require.Len(t, a.told, 6)
	assert.True(t, a.told[5].Over)
	assert.False(t, a.outage())
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
		"body":      {webhook.Observation{Outcome: webhook.OutcomeRejected, Err: events.ErrMalformed}, true},
		"no event":  {webhook.Observation{Outcome: webhook.OutcomeRejected, Err: events.ErrNoEvent}, true},
		"stranger":  {webhook.Observation{Outcome: webhook.OutcomeRejected, Err: webhook.ErrSignatureMissing}, false},
		"probe":     {webhook.Observation{Outcome: webhook.OutcomeProbe}, false},
	} {
		a := newAlarmed(t, webhook.AlarmConfig{MinFailures: 2, After: []time.Duration{time.Hour, time.Minute}})
		for range 3 {
			a.after(time.Minute, c.o)
		}
		assert.Equal(t, c.counts, a.outage(), name)
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
				assert.False(t, a.outage())
			}
			_, doubtful := a.Outages()
			require.Len(t, doubtful, 1)
			assert.Equal(t, webhook.OutageKindRejecting, doubtful[0].Kind)
			assert.Equal(t, 4*60, doubtful[0].Failures)
			a.after(time.Minute, accepted)
			assert.Empty(t, a.told)
			_, doubtful = a.Outages()
			assert.Empty(t, doubtful)
		})
	}
}

// A scanner sends a few requests without a signature per day.
func TestAlarmIgnoresScanner(t *testing.T) {
	t.Parallel()
	for _, reason := range []error{
		webhook.ErrSignatureMissing, webhook.ErrSignatureMalformed, fmt.Errorf("%w: %w", webhook.ErrUnknownPath, webhook.ErrSignatureMissing),
	} {
		a := newAlarmed(t, webhook.AlarmConfig{})
		for range 24 {
			a.after(2*time.Hour, rejected(reason))
		}
		assert.False(t, a.outage(), reason)
		a.after(2*time.Hour, mismatch)
		for range 6 {
			a.after(2*time.Hour, rejected(reason))
		}
		assert.True(t, a.outage(), "a request of the scanner must not hide those of the platform")
	}
}

// Without a confirmation, rejected requests are an outage only after half a day without an event.
// The delivery log may not show the events of every clinic, so it cannot prevent that.
func TestAlarmReportsSustainedRejections(t *testing.T) {
	t.Parallel()
	for name, confirm := range map[string]func(context.Context, string, time.Time) (bool, error){
		"no Confirm":       nil,
		"no failed event":  func(context.Context, string, time.Time) (bool, error) { return false, nil },
		"no delivery logs": func(context.Context, string, time.Time) (bool, error) { return false, assert.AnError },
	} {
		for _, reason := range []error{
			webhook.ErrSignatureMismatch, webhook.ErrSignatureMissing, webhook.ErrSignatureMalformed, webhook.ErrUnknownTenant, webhook.ErrUnknownPath,
		} {
			t.Run(name+" "+reason.Error(), func(t *testing.T) {
				t.Parallel()
				a := newAlarmed(t, webhook.AlarmConfig{Confirm: confirm})
				for range 24 {
					a.after(time.Hour, rejected(reason))
				}
				assert.True(t, a.outage())
				require.Len(t, a.told, 2, "at 12 and 20 hours")
				assert.Equal(t, webhook.OutageKindRejecting, a.told[0].Kind)
				assert.Equal(t, 12*time.Hour, a.told[0].Age())
				assert.False(t, a.told[0].Confirmed)
				a.after(time.Minute, accepted)
				assert.False(t, a.outage())
				require.Len(t, a.told, 3)
				assert.True(t, a.told[2].Over)
			})
		}
	}
}

// Confirm decides early if rejected requests came from the platform.
func TestAlarmConfirmsRejections(t *testing.T) {
	t.Parallel()
	var asked []time.Duration // age of since
	failed, err := false, error(nil)
	var a *alarmed
	a = newAlarmed(t, webhook.AlarmConfig{Confirm: func(ctx context.Context, tenant string, since time.Time) (bool, error) {
		_, limited := ctx.Deadline()
		assert.True(t, limited)
		assert.Equal(t, "a", tenant)
		asked = append(asked, a.now.Sub(since))
		return failed, err
	}})
	request, malformed := mismatch, rejected(webhook.ErrSignatureMalformed)
	request.Tenant, malformed.Tenant = "a", "a"
	for range 16 {
		a.after(time.Minute, malformed)
	}
	assert.Equal(t, []time.Duration{15 * time.Minute}, asked)
	assert.Empty(t, a.told)
	assert.False(t, a.outage())

	failed = true
	for range 15 {
		a.after(time.Minute, request)
	}
	require.Len(t, asked, 2)
	assert.Equal(t, 15*time.Minute, asked[1], "the log had no failure before")
	require.Len(t, a.told, 1)
	assert.True(t, a.told[0].Confirmed)
	assert.Equal(t, now.Add(16*time.Minute), a.told[0].Since, "the forged requests must not count")
	for range 5 * 60 {
		a.after(time.Minute, request)
	}
	assert.Len(t, asked, 2, "a confirmed outage needs no further call")
	assert.Len(t, a.told, 3, "also after 1 and 4 hours")
	a.after(time.Minute, webhook.Observation{Outcome: webhook.OutcomeAccepted, Tenant: "a"})
	require.Len(t, a.told, 4)
	assert.True(t, a.told[3].Over)

	// The delivery log cannot be read, so the next call covers that time again.
	asked, err = nil, assert.AnError
	for range 31 {
		a.after(time.Minute, request)
	}
	assert.Equal(t, []time.Duration{15 * time.Minute, 30 * time.Minute}, asked)
	assert.Len(t, a.told, 4)
}

// An unconfirmed outage may consist of forged requests. If a real one begins meanwhile, it must be
// reported.
func TestAlarmConfirmsReportedOutage(t *testing.T) {
	t.Parallel()
	failed := false
	a := newAlarmed(t, webhook.AlarmConfig{Confirm: func(context.Context, string, time.Time) (bool, error) { return failed, nil }})
	for range 3 * 24 {
		a.after(time.Hour, mismatch)
	}
	require.Len(t, a.told, 2)
	failed = true
	a.after(time.Hour, mismatch)
	require.Len(t, a.told, 3)
	assert.True(t, a.told[2].Confirmed)
	assert.Equal(t, time.Hour, a.told[2].Age())
}

// Each tenant has its own endpoint. A working endpoint must not hide a failing one.
func TestAlarmCountsEachTenant(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]webhook.Observation{"failing": down, "rejecting": mismatch} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAlarmed(t, webhook.AlarmConfig{Confirm: func(_ context.Context, tenant string, _ time.Time) (bool, error) {
				return tenant == "b", nil
			}})
			o.Tenant = "b"
			for range 24 * 4 {
				a.after(15*time.Minute, o)
				a.after(0, webhook.Observation{Outcome: webhook.OutcomeAccepted, Tenant: "a"})
			}
			require.Len(t, a.told, 5)
			current, _ := a.Outages()
			require.Len(t, current, 1)
			assert.Equal(t, "b", current[0].Tenant)
			assert.Equal(t, string(current[0].Kind), name)
			a.after(0, webhook.Observation{Outcome: webhook.OutcomeDuplicate, Tenant: "b"})
			require.Len(t, a.told, 6)
			assert.True(t, a.told[5].Over)
			assert.Equal(t, "b", a.told[5].Tenant)
			assert.False(t, a.outage())
		})
	}
}

// A request with an invalid header belongs to no tenant. Strangers send such requests for ever, so
// any accepted event ends their series.
func TestAlarmEndsUnknownTenantOnAnyEvent(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]webhook.Observation{
		"header": rejected(webhook.ErrSignatureMissing), "lookup": {Outcome: webhook.OutcomeUnavailable, Err: webhook.ErrTenant},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAlarmed(t, webhook.AlarmConfig{})
			for range 24 {
				a.after(time.Hour, o)
				a.after(0, webhook.Observation{Outcome: webhook.OutcomeAccepted, Tenant: "a"})
			}
			assert.Empty(t, a.told)
			for range 24 {
				a.after(time.Hour, o)
			}
			assert.NotEmpty(t, a.told)
		})
	}
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
			Confirm: func(context.Context, string, time.Time) (bool, error) { <-sent; return true, nil },
		})
		require.NoError(t, err)
		go alarm.Observe(t.Context(), mismatch)
		synctest.Wait()
		alarm.Observe(t.Context(), mismatch)
		alarm.Observe(t.Context(), accepted)
		close(sent)
		synctest.Wait()
		current, _ := alarm.Outages()
		assert.Empty(t, current)
		assert.Zero(t, told)
	})
}

// Constantly forged requests must not cause many calls of Confirm.
func TestAlarmLimitsConfirm(t *testing.T) {
	t.Parallel()
	for after, most := range map[time.Duration]int{0: 24 * 12, 15 * time.Minute: 24 * 4} {
		asked := 0
		a := newAlarmed(t, webhook.AlarmConfig{
			After:   []time.Duration{after, 48 * time.Hour},
			Confirm: func(context.Context, string, time.Time) (bool, error) { asked++; return false, nil },
		})
		for range 24 * 60 {
			a.after(time.Minute, mismatch)
		}
		assert.InDelta(t, most, asked, 1)
	}
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
