package dispensarytest

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// A watcher is notified of every change that a page about the platform could show.
func TestChanges(t *testing.T) {
	t.Parallel()
	b := start(t, WithClock(frozen()))
	require.NoError(t, b.fake.Webhooks.RegisterHandler(http.NotFoundHandler()))
	patient := b.fake.Patients.All()[0].ID
	token := b.fake.Tokens.Issue(model.User{}).AccessToken
	var fault *FaultHandle
	var order model.Order
	snap := b.fake.Snapshot()
	for _, test := range []struct {
		what string
		do   func() error
	}{
		{"a request", func() error { b.get("/clinic").ok(200); return nil }},
		{"an unknown request", func() error { b.get("/nothing").refused(404, "Not Found"); return nil }},
		{"an event", func() (err error) {
			order, _, err = b.fake.Orders.Place(patient, model.NewOrder{})
			return err
		}},
		{"an action without event", func() error { _, err := b.fake.Orders.Refund(order.ID, 0); return err }},
		{"a move of the clock", func() error { b.fake.Clock().Advance(time.Minute); return nil }},
		{"a token", func() error { b.fake.Tokens.Issue(model.User{}); return nil }},
		{"the end of a token", func() error { return b.fake.Tokens.Expire(token) }},
		{"more scopes", func() error { return b.fake.Tokens.ExtendScopes("patients:write") }},
		{"the end of all tokens", func() error { b.fake.Tokens.InvalidateAll(); return nil }},
		{"a fault", func() error { fault = b.fake.Fault(model.Fault{Effect: model.DropAfterCommit, Times: 1}); return nil }},
		{"the end of a fault", func() error { fault.Remove(); return nil }},
		{"a reading", func() error { return b.fake.SetBehavior(ResumeAfterEnableResumed) }},
		{"an endpoint", func() error { return b.fake.Webhooks.Register("http://127.0.0.1:1/") }},
		{"its return", func() error { return b.fake.Webhooks.Enable() }},
		{"a new journal", func() error { b.fake.Journal().Reset(); return nil }},
		{"an old snapshot", func() error { b.fake.Restore(snap); return nil }},
		{"a reset", func() error { b.fake.Reset(); return nil }},
	} {
		next, open := b.fake.Changes()
		again, _ := b.fake.Changes()
		assert.True(t, open)
		assert.Equal(t, next, again, "who watches together learns of it together")
		require.NoError(t, test.do(), test.what)
		select {
		case <-next:
		case <-time.After(time.Minute):
			require.FailNow(t, "no notification of "+test.what)
		}
	}
}

// What only reads is no change, and a platform that shares the clock is another
// one.
func TestNoChanges(t *testing.T) {
	t.Parallel()
	clock := frozen()
	b, other := start(t, WithClock(clock)), start(t, WithClock(clock))
	next, _ := b.fake.Changes()
	other.get("/clinic").ok(200)
	b.fake.Patients.All()
	b.fake.Webhooks.Deliveries()
	select {
	case <-next:
		assert.Fail(t, "there was no change")
	default:
	}
	require.NoError(t, other.fake.Close())
	clock.Advance(time.Second)
	<-next

	last, _ := b.fake.Changes()
	require.NoError(t, b.fake.Close())
	<-last
	_, open := b.fake.Changes()
	assert.False(t, open)
}
