package receivercheck

import (
	"fmt"
	"strconv"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/signature"
)

// driftMargin is how far from the edge of the tolerance a timestamp is: the
// receiver's clock is not read at the same moment.
const driftMargin = 30 * time.Second

func timestampCases() []testCase {
	return []testCase{
		{
			name: "Signature/Stale", run: (*checker).stale,
			consequence: "who has seen one request, in a proxy's log for example, can send it again at any time.",
			fix:         "refuse a timestamp that is older than five minutes.",
		},
		{
			name: "Signature/Future", run: (*checker).future,
			consequence: "a request that was signed ahead of its time stays good until then, and for the tolerance after it.",
			fix:         "compare the distance between timestamp and clock, in both directions: abs(now - t) > 5 minutes is refused.",
		},
		{
			name: "Signature/Drift", run: (*checker).drift,
			consequence: "events fail as soon as two clocks differ a little, or a delivery is held up on its way.",
			fix:         "accept timestamps within five minutes of the clock, in both directions.",
		},
		{
			name: "Signature/Replayed", needs: needsHandled, run: (*checker).replayed,
			consequence: "the same request, sent twice within five minutes, is handled twice.",
			fix:         "store the event's id and integration id under a unique key, and handle what is new.",
		},
	}
}

func (c *checker) stale() {
	for _, age := range []time.Duration{c.Timing.Tolerance + driftMargin, 24 * time.Hour, 365 * 24 * time.Hour} {
		c.outdated(fmt.Sprintf("an event that was signed %s ago", age), -age)
	}
}

func (c *checker) future() {
	for _, lead := range []time.Duration{c.Timing.Tolerance + driftMargin, 24 * time.Hour, 365 * 24 * time.Hour} {
		c.outdated(fmt.Sprintf("an event with a signature from %s in the future", lead), lead)
	}
}

func (c *checker) outdated(what string, shift time.Duration) {
	ev := c.newEvent()
	c.refuses(what, c.post(request{body: ev.body(), signature: signature.Header(c.Secret, c.Timing.Now().Add(shift), ev.body())}))
	c.neverHandled(ev)
}

func (c *checker) drift() {
	within := max(c.Timing.Tolerance-driftMargin, c.Timing.Tolerance/2)
	for what, shift := range sortedByKey(map[string]time.Duration{"ago": -within, "ahead of the clock": within}) {
		ev := c.newEvent()
		e := c.post(request{body: ev.body(), signature: signature.Header(c.Secret, c.Timing.Now().Add(shift), ev.body()), genuine: true})
		c.takes(fmt.Sprintf("an event that was signed %s %s", within, what), ev, e)
	}
}

func (c *checker) replayed() {
	ev := c.newEvent()
	first := request{body: ev.body(), signature: signature.Header(c.Secret, c.Timing.Now(), ev.body()), genuine: true}
	if !c.takes("an event", ev, c.post(first)) {
		return
	}
	c.post(first) // how it is answered is up to the receiver
	c.drain(ev)
}

func rotationCases() []testCase {
	return []testCase{
		{
			name: "Signature/TwoSignatures", run: (*checker).twoSignatures,
			consequence: "while the secret is rotated, the platform may sign with both: every webhook fails until the rotation is over.",
			fix:         "read all v1 of the header, and accept if any of them matches.",
		},
		{
			name: "Signature/Rotated", needs: needsOldSecret, run: (*checker).rotated,
			consequence: "between the change in the dashboard and that of your configuration every webhook fails.",
			fix:         "verify with a list of secrets, the new and the old, until the change has taken effect everywhere.",
		},
		{
			name: "Signature/FailsClosed", needs: needsWithoutSecret, run: (*checker).failsClosed,
			consequence: "a variable that is missing in one environment opens the address to every sender, without a sign of it.",
			fix:         "refuse to start without a secret.",
		},
	}
}

func (c *checker) twoSignatures() {
	at := strconv.FormatInt(c.Timing.Now().Unix(), 10)
	for _, tc := range []struct {
		what        string
		first, last string
	}{
		{"an event with a wrong and a right v1", wrongSecret, c.Secret},
		{"an event with a right and a wrong v1", c.Secret, wrongSecret},
	} {
		ev := c.newEvent()
		header := "t=" + at + ",v1=" + signature.MAC(tc.first, at+".", ev.body()) + ",v1=" + signature.MAC(tc.last, at+".", ev.body())
		c.takes(tc.what, ev, c.post(request{body: ev.body(), signature: header, genuine: true}))
	}
	ev := c.newEvent()
	header := "t=" + at + ",v1=" + signature.MAC(wrongSecret, at+".", ev.body()) + ",v1=" + signature.MAC("", at+".", ev.body())
	c.refuses("an event with two wrong v1", c.post(request{body: ev.body(), signature: header}))
	c.neverHandled(ev)
}

func (c *checker) rotated() {
	for what, secret := range sortedByKey(map[string]string{"old": c.Features.OldSecret, "new": c.Secret}) {
		ev := c.newEvent()
		e := c.post(request{body: ev.body(), signature: signature.Header(secret, c.Timing.Now(), ev.body()), genuine: true})
		c.takes("an event signed with the "+what+" secret", ev, e)
	}
}

// unconfiguredOrigin is where the receiver without a secret is hosted.
const unconfiguredOrigin = "https://unconfigured.dispensary.test"

func (c *checker) failsClosed() {
	handler, err := c.Hooks.WithoutSecret()
	if err != nil {
		return
	}
	if err := c.srv.Host(unconfiguredOrigin, handler); err != nil {
		c.reportf("WithoutSecret returned neither a handler nor an error")
		return
	}
	other := &checker{Target: c.Target, ctx: c.ctx, current: c.current, client: c.hosted, url: unconfiguredOrigin + c.Path}
	for what, header := range sortedByKey(map[string]func([]byte) string{
		"unsigned":                    func([]byte) string { return "" },
		"signed with an empty secret": func(body []byte) string { return signature.Header("", c.Timing.Now(), body) },
		"signed with some secret":     func(body []byte) string { return signature.Header(wrongSecret, c.Timing.Now(), body) },
	}) {
		ev := c.newEvent()
		e := other.post(request{body: ev.body(), signature: header(ev.body())})
		if e.status/100 == 2 {
			c.reportf("without a secret, an event that is %s %s", what, c.describe(e))
		}
		c.neverHandled(ev)
	}
}
