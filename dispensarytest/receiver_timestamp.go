package dispensarytest

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/memhttp"
)

// driftMargin is how far from the edge of the tolerance a timestamp is: the
// receiver's clock is not read at the same moment.
const driftMargin = 30 * time.Second

func timestampCases() []receiverCase {
	return []receiverCase{
		{
			name: "Stale", run: (*examination).stale,
			consequence: "who has seen one request, in a proxy's log for example, can send it again for ever.",
			fix:         "refuse a timestamp that is older than five minutes.",
		},
		{
			name: "Future", run: (*examination).future,
			consequence: "a request that was signed ahead of its time stays good until then, and for the tolerance after it.",
			fix:         "compare the distance between timestamp and clock, in both directions: abs(now - t) > 5 minutes is refused.",
		},
		{
			name: "Drift", run: (*examination).drift,
			consequence: "events fail as soon as two clocks differ a little, or a delivery is held up on its way.",
			fix:         "accept timestamps within five minutes of the clock, in both directions.",
		},
		{
			name: "Replayed", needs: hookHandled, run: (*examination).replayed,
			consequence: "the same request, sent twice within five minutes, is handled twice.",
			fix:         "store the event's id and integration id under a unique key, and handle what is new.",
		},
	}
}

func (x *examination) stale() {
	for _, age := range []time.Duration{x.Tolerance + driftMargin, 24 * time.Hour, 365 * 24 * time.Hour} {
		x.outdated(fmt.Sprintf("an event that was signed %s ago", age), -age)
	}
}

func (x *examination) future() {
	for _, lead := range []time.Duration{x.Tolerance + driftMargin, 24 * time.Hour, 365 * 24 * time.Hour} {
		x.outdated(fmt.Sprintf("an event with a signature from %s in the future", lead), lead)
	}
}

func (x *examination) outdated(what string, shift time.Duration) {
	n := x.notice(x.EventType)
	x.refuses(what, x.post(parcel{body: n.body(), signature: signedHeader(x.Secret, x.Now().Add(shift), n.body())}))
	x.ignored(n)
}

func (x *examination) drift() {
	within := max(x.Tolerance-driftMargin, x.Tolerance/2)
	for what, shift := range sorted(map[string]time.Duration{"ago": -within, "ahead of the clock": within}) {
		n := x.notice(x.EventType)
		e := x.post(parcel{body: n.body(), signature: signedHeader(x.Secret, x.Now().Add(shift), n.body()), genuine: true})
		if x.accepts(fmt.Sprintf("an event that was signed %s %s", within, what), e) {
			x.handled(n, 1)
		}
	}
}

func (x *examination) replayed() {
	n := x.notice(x.EventType)
	first := parcel{body: n.body(), signature: signedHeader(x.Secret, x.Now(), n.body()), genuine: true}
	if !x.accepts("an event", x.post(first)) {
		return
	}
	x.handled(n, 1)
	x.post(first) // how it is answered is up to the receiver
	x.catchUp()
	x.notMore(n)
}

func rotationCases() []receiverCase {
	return []receiverCase{
		{
			name: "TwoSignatures", run: (*examination).twoSignatures,
			consequence: "while the secret is rotated, the platform may sign with both: every webhook fails until the rotation is over.",
			fix:         "read all v1 of the header, and accept if any of them matches.",
		},
		{
			name: "Rotated", needs: hookOldSecret, run: (*examination).rotated,
			consequence: "between the change in the dashboard and that of your configuration every webhook fails.",
			fix:         "verify with a list of secrets, the new and the old, until the change has taken effect everywhere.",
		},
		{
			name: "FailsClosed", needs: hookWithoutSecret, run: (*examination).failsClosed,
			consequence: "a variable that is missing in one environment opens the address to everybody, and nobody notices.",
			fix:         "refuse to start without a secret.",
		},
	}
}

func (x *examination) twoSignatures() {
	at := strconv.FormatInt(x.Now().Unix(), 10)
	for _, c := range []struct {
		what        string
		first, last string
	}{
		{"an event with a wrong and a right v1", forgedSecret, x.Secret},
		{"an event with a right and a wrong v1", x.Secret, forgedSecret},
	} {
		n := x.notice(x.EventType)
		header := "t=" + at + ",v1=" + hexMAC(c.first, at+".", n.body()) + ",v1=" + hexMAC(c.last, at+".", n.body())
		if x.accepts(c.what, x.post(parcel{body: n.body(), signature: header, genuine: true})) {
			x.handled(n, 1)
		}
	}
	n := x.notice(x.EventType)
	header := "t=" + at + ",v1=" + hexMAC(forgedSecret, at+".", n.body()) + ",v1=" + hexMAC("", at+".", n.body())
	x.refuses("an event with two wrong v1", x.post(parcel{body: n.body(), signature: header}))
	x.ignored(n)
}

func (x *examination) rotated() {
	for what, secret := range sorted(map[string]string{"old": x.OldSecret, "new": x.Secret}) {
		n := x.notice(x.EventType)
		e := x.post(parcel{body: n.body(), signature: signedHeader(secret, x.Now(), n.body()), genuine: true})
		if x.accepts("an event signed with the "+what+" secret", e) {
			x.handled(n, 1)
		}
	}
}

// unconfiguredOrigin is where the receiver without a secret stands.
const unconfiguredOrigin = "https://unconfigured.dispensary.test"

func (x *examination) failsClosed() {
	handler, err := x.WithoutSecret()
	if err != nil {
		return
	}
	if err := x.srv.Host(unconfiguredOrigin, handler); err != nil {
		x.finding("WithoutSecret returned neither a handler nor an error")
		return
	}
	other := &examination{
		Receiver: x.Receiver, ctx: x.ctx, srv: x.srv, current: x.current, samples: x.samples, ledger: x.ledger,
		client: &http.Client{Transport: memhttp.Transport{Network: x.srv.net}}, target: unconfiguredOrigin + x.Path,
	}
	for what, sign := range sorted(map[string]func([]byte) string{
		"unsigned":                    func([]byte) string { return "" },
		"signed with an empty secret": func(body []byte) string { return signedHeader("", x.Now(), body) },
		"signed with some secret":     func(body []byte) string { return signedHeader(forgedSecret, x.Now(), body) },
	}) {
		n := x.notice(x.EventType)
		e := other.post(parcel{body: n.body(), signature: sign(n.body())})
		if e.status/100 == 2 {
			x.finding("without a secret, an event that is %s %s", what, x.describe(e))
		}
		x.ignored(n)
	}
}
