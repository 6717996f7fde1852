package webhooks

import (
	"cmp"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/signature"
)

// Signature is how a request to the endpoint is signed.
type Signature struct {
	none  bool
	shift time.Duration // of the timestamp
	with  string        // in place of the secret
}

// Sign writes the signature header for a body, at this moment.
func (s *Sender) Sign(body []byte, how Signature) string {
	return signature.Header(cmp.Or(how.with, s.App.WebhookSecret), s.Clock.Now().Add(how.shift), body)
}
