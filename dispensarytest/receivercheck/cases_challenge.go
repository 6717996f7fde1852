package receivercheck

import (
	"net/http"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/signature"
)

func challengeCases() []testCase {
	return []testCase{
		{
			name: "Challenge/Answer", run: (*checker).answer,
			consequence: "the platform counts the delivery as failed, sends the event five more times, and after 24 hours switches the address off.",
			fix:         `answer events with 200, Content-Type: application/json and the body {"challenge":"<the challenge token>"}, the token being that of the dashboard and not the secret.`,
		},
		{
			name: "Challenge/Probe", run: (*checker).probe,
			consequence: "an address that does not answer the empty test call cannot be registered, or gets no events where the call comes before each.",
			fix:         "answer an empty body with a valid signature like an event, and handle nothing.",
		},
		{
			name: "Challenge/UnsignedProbe", run: (*checker).unsignedProbe,
			consequence: "anyone who asks gets the challenge token, and can answer in your name; or, where you mean to answer unsigned probes, registration fails.",
			fix:         "answer an empty body without signature with 401, unless registration fails otherwise; set Target.Features.UnsignedProbe to what you mean.",
		},
		{
			name: "Challenge/OnlyPost", run: (*checker).onlyPost,
			consequence: "a link in an e-mail or a crawler sets events off, or gets the challenge token.",
			fix:         "answer every method but POST with 405.",
		},
	}
}

func (c *checker) answer() {
	ev := c.newEvent()
	e := c.deliver(ev.body())
	if !c.accepts("an event", e) {
		return
	}
	if wrong := c.acknowledgement(e); wrong != "" {
		c.reportf("the answer to an event %s", wrong)
	}
	c.handled(ev, 1)
}

func (c *checker) probe() {
	e := c.deliver(nil)
	if !c.accepts("an empty body with a valid signature", e) {
		return
	}
	if wrong := c.acknowledgement(e); wrong != "" {
		c.reportf("the answer to an empty body %s", wrong)
	}
}

func (c *checker) unsignedProbe() {
	e := c.post(request{genuine: c.Features.UnsignedProbe})
	if !c.Features.UnsignedProbe {
		c.refuses("an empty body without a signature", e)
		return
	}
	if c.accepts("an empty body without a signature", e) {
		if wrong := c.acknowledgement(e); wrong != "" {
			c.reportf("the answer to an empty body without a signature %s", wrong)
		}
	}
}

func (c *checker) onlyPost() {
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		ev := c.newEvent()
		e := c.post(request{method: method, body: ev.body(), signature: signature.Header(c.Secret, c.Timing.Now(), ev.body())})
		c.refuses("a signed event sent by "+method, e)
		c.neverHandled(ev)
	}
}
