package console

import (
	"slices"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// effect is what a fault does, in words, and the fields of a fault that it reads.
type effect struct {
	Name   model.Effect
	Words  string
	Fields []string
}

// effects are all of them, those of requests first.
var effects = []effect{
	{model.DropAfterCommit, "Break the connection off after the work is done", nil},
	{model.DropBeforeCommit, "Break the connection off before anything is done", nil},
	{model.ErrorStatus, "Refuse with a status and messages", []string{"status", "messages"}},
	{model.Latency, "Let requests wait", []string{"delay"}},
	{model.ProxyError, "Answer with the page of a proxy, 502 unless set", []string{"status"}},
	{model.RateLimit, "Limit the rate of requests", []string{"limit", "window", "silent"}},
	{model.SlowBody, "Send answers slowly, in pieces", []string{"delay", "bytes"}},
	{model.TokenExpired, "Let the access token expire as the request comes in", nil},
	{model.TokenInvalidated, "End the user's consent as the request comes in", nil},
	{model.TooManyRequests, "Answer with 429", []string{"retry_after", "retry_after_date"}},
	{model.TruncatedBody, "Break the connection off within the answer", []string{"bytes"}},
	{model.DeliveryForged, "Webhooks: sign with another secret", nil},
	{model.DeliveryFuture, "Webhooks: sign with a time ahead, 10 minutes unless set", []string{"delay"}},
	{model.DeliveryLost, "Webhooks: never send the event", nil},
	{model.DeliveryReordered, "Webhooks: hold the event back behind the next, or for a minute", []string{"delay"}},
	{model.DeliveryRepeated, "Webhooks: send the event again", nil},
	{model.DeliveryStale, "Webhooks: sign with a time long ago, 10 minutes unless set", []string{"delay"}},
}

// preset is a fault that is set often, at the press of a button.
type preset struct {
	Label  string
	fields []string // names and values, in turn
}

var presets = []preset{
	{"Refuse the next request with 503", []string{"body.effect", "error_status", "body.status", "503", "body.times", "1"}},
	{"Answer the next 3 with 429, for 30 s", []string{"body.effect", "too_many_requests", "body.retry_after", "30s", "body.times", "3"}},
	{"Let the next request wait 5 s", []string{"body.effect", "latency", "body.delay", "5s", "body.times", "1"}},
	{"Lose the next answer, after the work", []string{"body.effect", "drop_after_commit", "body.times", "1"}},
	{"Let the token of the next request expire", []string{"body.effect", "token_expired", "body.times", "1"}},
	{"Allow 5 requests in 10 s", []string{"body.effect", "rate_limit", "body.limit", "5", "body.window", "10s"}},
	{"Send the next webhook twice", []string{"body.effect", "delivery_repeated", "body.times", "1"}},
	{"Lose the next webhook", []string{"body.effect", "delivery_lost", "body.times", "1"}},
	{"Sign the next webhook with another secret", []string{"body.effect", "delivery_forged", "body.times", "1"}},
	{"Send the next webhook behind the one after it", []string{"body.effect", "delivery_reordered", "body.times", "1"}},
}

func newPresetButton(f *frame, p preset) button {
	return newButton(f, "faults.set", p.Label, "", p.fields...)
}

// firstOfDelivery is the first effect that befalls webhooks, and not requests.
const firstOfDelivery = model.DeliveryForged

// rarely are the fields of a fault that few need: which of the requests or deliveries
// meet it.
var rarely = []string{"skip", "chance", "seed"}

// faultHints say what is not said by the names of the fields.
var faultHints = map[string]string{
	"operation": "such as patients.create; any unless set", "event_type": "any unless set",
	"times": "how often; until it is removed unless set", "skip": "how many pass unharmed first",
	"chance": "from 0 to 1; always unless set", "seed": "of the dice that chance throws",
	"silent": "without Retry-After", "retry_after_date": "as a date",
}

// effectNamed returns nil for what is no effect.
func effectNamed(name string) *effect {
	at := slices.IndexFunc(effects, func(e effect) bool { return string(e.Name) == name })
	if at < 0 {
		return nil
	}
	return &effects[at]
}

// reads reports whether the effect reads a field.
func (e effect) reads(field string) bool {
	of := func(one effect) bool { return one.Name == e.Name }
	first := func(one effect) bool { return one.Name == firstOfDelivery }
	delivery := slices.IndexFunc(effects, of) >= slices.IndexFunc(effects, first)
	switch field {
	case "operation":
		return !delivery
	case "event_type":
		return delivery
	case "effect", "times":
		return true
	}
	return slices.Contains(e.Fields, field) || slices.Contains(rarely, field)
}
