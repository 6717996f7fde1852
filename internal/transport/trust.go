package transport

import (
	"bytes"
	"encoding/json"
	"net/http"
)

// fromPlatform reports whether the platform itself provably wrote the response. This function
// alone decides which responses the client trusts.
//
// A proxy, a gateway that stops waiting, a firewall or a sign-in page can respond with any
// status in place of the platform, while the platform continues processing. There are two
// proofs:
//
//   - The response has an X-Request-Id, which the API promises on every response, and its body
//     is a JSON object. A JSON object alone proves nothing, because gateways write JSON too. A
//     success may also be empty.
//   - The response is a success, and its body has the content that the operation returns under
//     key, such as the created patient. Only the platform can know it.
//
// Callers follow these rules:
//
//   - Any response to a write without proof means that the write may have been applied,
//     whatever the status. The client does not repeat the write.
//   - With proof, 3xx and 4xx mean that the platform did not apply the write, except 303 and
//     408. A 5xx is never such a proof, because gateways may add an X-Request-Id.
//   - A write is repeated only after a 429 with proof and a readable Retry-After, or once with
//     a fresh token after a 401 with proof.
//   - A read may be repeated in any case, so it is retried and gets a fresh token without
//     proof. Its content is decoded without further proof. But 400, 401, 403, 404, 409 and 422
//     without proof are not about the record or the user: the error is Untrusted and matches
//     no sentinel of these statuses.
//   - At the token endpoint, an error without proof blames neither the application nor the
//     user's grant. It counts as a temporary failure.
func (a *answer) fromPlatform(key string) bool {
	if !a.complete {
		return false
	}
	body := bytes.TrimSpace(a.body.Bytes())
	if a.requestID() != "" {
		switch {
		case len(body) == 0:
			return a.success()
		case body[0] == '{' && body[len(body)-1] == '}':
			return a.success() || json.Valid(body) // a success is decoded later
		}
		return false
	}
	return a.success() && key != "" && hasContent(body, key)
}

// hasContent reports whether a body has an object with at least one member under key.
func hasContent(body []byte, key string) bool {
	var envelope map[string]json.RawMessage
	var content map[string]json.RawMessage
	return json.Unmarshal(body, &envelope) == nil && json.Unmarshal(envelope[key], &content) == nil && len(content) > 0
}

// refusedForNow reports whether the platform has rejected a write temporarily and has stated
// when to repeat it. It checks its rate limit before it processes a request.
func (a *answer) refusedForNow() bool {
	_, stated := retryAfter(a.header)
	return a.status == http.StatusTooManyRequests && stated && a.fromPlatform("")
}
