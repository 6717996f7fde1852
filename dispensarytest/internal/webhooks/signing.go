package webhooks

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"time"
)

// Signature is how a request to the endpoint is signed.
type Signature struct {
	none  bool
	shift time.Duration // of the timestamp
	with  string        // in place of the secret
}

// Sign writes the signature header for a body, at this moment.
func (s *Sender) Sign(body []byte, how Signature) string {
	return Header(cmp.Or(how.with, s.App.WebhookSecret), s.Clock.Now().Add(how.shift), body)
}

// Header is the signature header of a body. API section: "Signature
// header".
func Header(secret string, at time.Time, body []byte) string {
	t := strconv.FormatInt(at.Unix(), 10)
	return "t=" + t + ",v1=" + hexMAC(secret, t+".", body)
}

// hexMAC signs a prefix and a body.
func hexMAC(secret, prefix string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(prefix))
	mac.Write(body)
	return hex.EncodeToString(mac.Sum(nil))
}
