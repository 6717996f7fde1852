package console

// preset is a fault with its own button.
type preset struct {
	Label  string
	fields []string // alternating names and values
}

var presets = []preset{
	{"Reject the next request with 503", []string{"body.effect", "error_status", "body.status", "503", "body.times", "1"}},
	{"Reject the next 3 requests with 429, for 30 s", []string{"body.effect", "too_many_requests", "body.retry_after", "30s", "body.times", "3"}},
	{"Delay the next request by 5 s", []string{"body.effect", "latency", "body.delay", "5s", "body.times", "1"}},
	{"Lose the next response, after the change", []string{"body.effect", "drop_after_commit", "body.times", "1"}},
	{"Expire the token of the next request", []string{"body.effect", "token_expired", "body.times", "1"}},
	{"Allow 5 requests in 10 s", []string{"body.effect", "rate_limit", "body.limit", "5", "body.window", "10s"}},
	{"Send the next webhook twice", []string{"body.effect", "delivery_repeated", "body.times", "1"}},
	{"Lose the next webhook", []string{"body.effect", "delivery_lost", "body.times", "1"}},
	{"Sign the next webhook with another secret", []string{"body.effect", "delivery_forged", "body.times", "1"}},
	{"Swap the next two webhooks", []string{"body.effect", "delivery_reordered", "body.times", "1"}},
}

func newPresetButton(f *frame, p preset) button {
	return newButton(f, "faults.set", p.Label, "", p.fields...)
}
