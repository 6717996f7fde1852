package dispensarytest

import "net/http"

func challengeCases() []receiverCase {
	return []receiverCase{
		{
			name: "Answer", run: (*examination).answer,
			consequence: "the platform counts the delivery as failed, sends the event five more times, and after 24 hours switches the address off.",
			fix:         `answer events with 200, Content-Type: application/json and the body {"challenge":"<the challenge token>"}, the token being that of the dashboard and not the secret.`,
		},
		{
			name: "Probe", run: (*examination).probe,
			consequence: "an address that does not answer the empty test call cannot be registered, or gets no events where the call comes before each.",
			fix:         "answer an empty body with a valid signature like an event, and handle nothing.",
		},
		{
			name: "UnsignedProbe", run: (*examination).unsignedProbe,
			consequence: "whoever asks gets the challenge token, and can answer in your name; or, where you mean to answer unsigned probes, registration fails.",
			fix:         "answer an empty body without signature with 401, unless registration fails otherwise; set Receiver.AnswersUnsignedProbe to what you mean.",
		},
		{
			name: "OnlyPost", run: (*examination).onlyPost,
			consequence: "a link in an e-mail or a crawler sets events off, or gets the challenge token.",
			fix:         "answer every method but POST with 405.",
		},
	}
}

func (x *examination) answer() {
	n := x.notice(x.EventType)
	e := x.deliver(n.body())
	if !x.accepts("an event", e) {
		return
	}
	if wrong := x.acknowledgement(e); wrong != "" {
		x.finding("the answer to an event %s", wrong)
	}
	x.handled(n, 1)
}

func (x *examination) probe() {
	e := x.deliver(nil)
	if !x.accepts("an empty body with a valid signature", e) {
		return
	}
	if wrong := x.acknowledgement(e); wrong != "" {
		x.finding("the answer to an empty body %s", wrong)
	}
}

func (x *examination) unsignedProbe() {
	e := x.post(parcel{genuine: x.AnswersUnsignedProbe})
	if !x.AnswersUnsignedProbe {
		x.refuses("an empty body without a signature", e)
		return
	}
	if x.accepts("an empty body without a signature", e) {
		if wrong := x.acknowledgement(e); wrong != "" {
			x.finding("the answer to an empty body without a signature %s", wrong)
		}
	}
}

func (x *examination) onlyPost() {
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		n := x.notice(x.EventType)
		e := x.post(parcel{method: method, body: n.body(), signature: signedHeader(x.Secret, x.Now(), n.body())})
		x.refuses("a signed event sent by "+method, e)
		x.ignored(n)
	}
}
