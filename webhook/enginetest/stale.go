package enginetest

import (
	"context"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
)

// staleness plays events that arrive after a newer one was handled.
var staleness = map[string]func(*harness){
	"Reported": func(r *harness) { stale(r, webhook.StaleReport, webhook.ResultHandled) },
	"Skipped":  func(r *harness) { stale(r, webhook.StaleSkip, webhook.ResultSkipped) },
	"Ignored":  staleIgnored,
	"Restart":  staleAfterRestart,
	"Failure":  onlyHandledCounts,
}

func guard(policy webhook.StalePolicy) func(*webhook.Work) {
	return func(w *webhook.Work) { w.Order, w.Stale = webhook.ByClinic, policy }
}

// stale handles an event and then one each that is older, of the same age,
// younger and without an age, of this object and others.
func stale(r *harness, policy webhook.StalePolicy, want webhook.Result) {
	r.need(r.storage.Ordered, "Ordered")
	told := make(chan bool, 1)
	inbox := r.open(func(ctx context.Context, _ events.Event) error {
		told <- webhook.HandlingFrom(ctx).Stale
		return nil
	}, guard(policy))
	ageless := patient("ageless", "pa_1", 1)
	ageless.CreatedAt = time.Time{}
	for _, step := range []struct {
		delivery webhook.Delivery
		stale    bool
	}{
		{patient("first", "pa_1", 10), false},
		{patient("older", "pa_1", 5), true},
		{patient("older still", "pa_1", 1), true},
		{patient("as old", "pa_1", 10), false},
		{patient("other", "pa_2", 1), false},
		{integration(patient("first", "pa_1", 5), "in_2"), false},
		{ageless, false},
		{patient("newer", "pa_1", 20), false},
		{created("born in the moment of its change", "pa_1", 20), true},
		{created("born elsewhere", "pa_3", 20), false},
		{patient("changed in the moment of its birth", "pa_3", 20), false},
		{patient("between", "pa_1", 15), true},
	} {
		r.accept(inbox, step.delivery)
		result := webhook.ResultHandled
		if step.stale {
			result = want
		}
		r.waitFor(result, step.delivery)
		if result == webhook.ResultHandled {
			assert.Equal(r, step.stale, receive(r, told), "%s", step.delivery)
		}
		got := r.of(step.delivery)
		require.Len(r, got, 1)
		assert.Equal(r, step.stale, got[0].Stale, "%s", step.delivery)
		require.Zero(r, r.accept(inbox, step.delivery))
	}
	require.Empty(r, r.deadLetters(inbox))
}

func staleIgnored(r *harness) {
	inbox := r.open(succeed)
	newer, older := patient("newer", "pa_1", 2), patient("older", "pa_1", 1)
	for _, d := range []webhook.Delivery{newer, older} {
		r.accept(inbox, d)
		r.waitFor(webhook.ResultHandled, d)
	}
	assert.False(r, r.of(older)[0].Stale)
}

func staleAfterRestart(r *harness) {
	r.need(r.storage.Ordered && r.storage.Durable, "Ordered and Durable")
	inbox := r.open(succeed, guard(webhook.StaleSkip))
	newer, older := patient("newer", "pa_1", 2), patient("older", "pa_1", 1)
	r.accept(inbox, newer)
	r.waitFor(webhook.ResultHandled, newer)
	r.close(inbox)
	inbox = r.open(succeed, guard(webhook.StaleSkip))
	r.accept(inbox, older)
	r.waitFor(webhook.ResultSkipped, older)
}

// onlyHandledCounts holds that an event which was given up makes none stale.
func onlyHandledCounts(r *harness) {
	r.need(r.storage.Ordered, "Ordered")
	inbox := r.open(func(_ context.Context, e events.Event) error {
		if e.ID == "dies" {
			return webhook.Permanent(errDown)
		}
		return nil
	}, guard(webhook.StaleSkip))
	dies, older := patient("dies", "pa_1", 2), patient("older", "pa_1", 1)
	die(r, inbox, dies)
	r.accept(inbox, older)
	r.waitFor(webhook.ResultHandled, older)
}
