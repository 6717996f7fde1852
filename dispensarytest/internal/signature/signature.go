// Package signature computes the signatures of webhooks, for the fake's sender and for the
// checks of an endpoint. It shares no code with package webhook.
package signature

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"time"
)

// Header returns the signature header of a body. API section: "Signature header".
func Header(secret string, at time.Time, body []byte) string {
	t := strconv.FormatInt(at.Unix(), 10)
	return "t=" + t + ",v1=" + MAC(secret, t+".", body)
}

// MAC returns the HMAC-SHA256 of a prefix and a body in hexadecimal digits.
func MAC(secret, prefix string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(prefix))
	mac.Write(body)
	return hex.EncodeToString(mac.Sum(nil))
}
