package dispensarytest

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"time"
)

// signature is how a request to the endpoint is signed.
type signature struct {
	none  bool
	shift time.Duration // of the timestamp
	with  string        // in place of the secret
}

// sign writes the signature header for a body, at this moment.
func (s *sender) sign(body []byte, how signature) string {
	return signedHeader(or(how.with, s.srv.app.WebhookSecret), s.srv.clock.Now().Add(how.shift), body)
}

// signedHeader is the signature header of a body. API section: "Signature
// header".
func signedHeader(secret string, at time.Time, body []byte) string {
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
