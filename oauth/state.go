package oauth

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"strconv"
	"time"

	"github.com/dispensary-go/dispensary/api"
)

// minStateKey is the length of a key for HMAC with SHA-256, in bytes.
const minStateKey = 32

// stateRing signs what a browser carries and knows it again. The first key
// signs, all of them verify.
type stateRing struct {
	keys [][]byte
}

// newStateRing derives one key for each of the given ones. The application is
// part of it: what was signed for another one, or for another environment, is
// not known here.
func newStateRing(keys []api.Secret, environment api.Environment, clientID string) (*stateRing, error) {
	if len(keys) == 0 {
		return nil, errors.New("is empty")
	}
	r := &stateRing{}
	for i, key := range keys {
		if len(key) < minStateKey {
			return nil, errors.New("needs keys of at least " + strconv.Itoa(minStateKey) + " random bytes; number " + strconv.Itoa(i+1) + " is shorter")
		}
		r.keys = append(r.keys, sign([]byte(key.Reveal()), "dispensary/oauth/state/1", []byte(environment.String()), []byte(clientID)))
	}
	return r, nil
}

// sign is HMAC-SHA-256 over a purpose and parts, each with its length before it
// so that no two lists of parts are the same message.
func sign(key []byte, purpose string, parts ...[]byte) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write(binary.BigEndian.AppendUint32(nil, uint32(len(purpose))))
	mac.Write([]byte(purpose))
	for _, part := range parts {
		mac.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		mac.Write(part)
	}
	return mac.Sum(nil)
}

func (r *stateRing) sign(purpose string, parts ...[]byte) []byte {
	return sign(r.keys[0], purpose, parts...)
}

// verify compares in constant time.
func (r *stateRing) verify(mac []byte, purpose string, parts ...[]byte) bool {
	good := false
	for _, key := range r.keys {
		good = hmac.Equal(mac, sign(key, purpose, parts...)) || good
	}
	return good
}

// ticket is what a state says: when the flow began, and a number that no other
// flow has. It names nobody: a state is seen by the platform and by whoever
// reads addresses.
type ticket struct {
	issued time.Time // in seconds
	nonce  [16]byte
}

// The layout of a state, in bytes: version, time, nonce, signature.
const (
	stateVersion = 1
	signedBytes  = 1 + 8 + 16
	stateBytes   = signedBytes + sha256.Size
)

// What is signed: neither of the two passes for the other.
const (
	forState  = "state"
	forCookie = "cookie"
)

// browserSafe is strict, so that a state has one spelling only.
var browserSafe = base64.RawURLEncoding.Strict()

func newTicket(now time.Time) ticket {
	t := ticket{issued: now.Truncate(time.Second)}
	_, _ = rand.Read(t.nonce[:]) // never fails
	return t
}

func (t ticket) bytes() []byte {
	b := append(make([]byte, 0, stateBytes), stateVersion)
	b = binary.BigEndian.AppendUint64(b, uint64(t.issued.Unix()))
	return append(b, t.nonce[:]...)
}

// seal writes a state: 76 characters that need no escaping.
func (r *stateRing) seal(t ticket) string {
	b := t.bytes()
	return browserSafe.EncodeToString(append(b, r.sign(forState, b)...))
}

// open reads a state and reports whether it is one of ours.
func (r *stateRing) open(state string) (ticket, bool) {
	var t ticket
	if len(state) != browserSafe.EncodedLen(stateBytes) {
		return t, false
	}
	b, err := browserSafe.DecodeString(state)
	if err != nil || len(b) != stateBytes || b[0] != stateVersion || !r.verify(b[signedBytes:], forState, b[:signedBytes]) {
		return t, false
	}
	t.issued = time.Unix(int64(binary.BigEndian.Uint64(b[1:9])), 0)
	copy(t.nonce[:], b[9:signedBytes])
	return t, true
}

// stub is what stays with the browser, in a cookie: the other half of a ticket.
type stub struct {
	user     string
	returnTo string
}

// userTag recognizes a user without naming one.
const userTag = 16

func (r *stateRing) tag(t ticket, user string) []byte {
	sum := sha256.Sum256(append(t.bytes(), user...))
	return sum[:userTag]
}

// tear writes the cookie's value: the user's tag, a signature over everything,
// and the return address.
func (r *stateRing) tear(t ticket, s stub) string {
	tag := r.tag(t, s.user)
	mac := r.sign(forCookie, t.bytes(), tag, []byte(s.returnTo))
	b := append(append(append([]byte{}, tag...), mac...), s.returnTo...)
	return browserSafe.EncodeToString(b)
}

// match reads the cookie that belongs to a ticket. ours is false for a cookie
// that was not written for it, same is false if it was for another user.
func (r *stateRing) match(t ticket, cookie, user string) (returnTo string, ours, same bool) {
	b, err := browserSafe.DecodeString(cookie)
	if err != nil || len(b) < userTag+sha256.Size {
		return "", false, false
	}
	tag, mac, rest := b[:userTag], b[userTag:userTag+sha256.Size], b[userTag+sha256.Size:]
	if !r.verify(mac, forCookie, t.bytes(), tag, rest) {
		return "", false, false
	}
	return string(rest), true, hmac.Equal(tag, r.tag(t, user))
}

// cookieSuffix names the cookie of one flow, so that flows in several tabs do
// not take each other's.
func (t ticket) cookieSuffix() string { return browserSafe.EncodeToString(t.nonce[:6]) }
