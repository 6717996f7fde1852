package connect

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
	"github.com/dispensary-go/dispensary/internal/defaults"
)

// stateKeys sign what a browser carries and verify it. The first key signs, all of
// them verify.
type stateKeys struct {
	keys [][]byte
}

// newStateKeys derives one key for each of the given ones. The application is
// part of it: what was signed for another one, or for another environment, is
// not known here.
func newStateKeys(keys []api.Secret, environment api.Environment, clientID string) (*stateKeys, error) {
	if len(keys) == 0 {
		return nil, errors.New("is empty")
	}
	k := &stateKeys{}
	for i, key := range keys {
		if len(key.Reveal()) < defaults.StateKeySize {
			return nil, errors.New("needs keys of at least " + strconv.Itoa(defaults.StateKeySize) + " random bytes; number " + strconv.Itoa(i+1) + " is shorter")
		}
		k.keys = append(k.keys, sign([]byte(key.Reveal()), "dispensary/oauth/state/1", []byte(environment.String()), []byte(clientID)))
	}
	return k, nil
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

func (k *stateKeys) sign(purpose string, parts ...[]byte) []byte {
	return sign(k.keys[0], purpose, parts...)
}

// verify compares in constant time.
func (k *stateKeys) verify(mac []byte, purpose string, parts ...[]byte) bool {
	good := false
	for _, key := range k.keys {
		good = hmac.Equal(mac, sign(key, purpose, parts...)) || good
	}
	return good
}

// flow is what a state says: when the flow began, and a number that no other
// flow has. It names no user: a state is seen by the platform and by everyone who
// reads addresses.
type flow struct {
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

func newFlow(now time.Time) flow {
	f := flow{issued: now.Truncate(time.Second)}
	_, _ = rand.Read(f.nonce[:]) // never fails
	return f
}

func (f flow) bytes() []byte {
	b := append(make([]byte, 0, stateBytes), stateVersion)
	b = binary.BigEndian.AppendUint64(b, uint64(f.issued.Unix()))
	return append(b, f.nonce[:]...)
}

// sealState writes a state: 76 characters that need no escaping.
func (k *stateKeys) sealState(f flow) string {
	b := f.bytes()
	return browserSafe.EncodeToString(append(b, k.sign(forState, b)...))
}

// openState reads a state and reports whether it is one of ours.
func (k *stateKeys) openState(state string) (flow, bool) {
	var f flow
	if len(state) != browserSafe.EncodedLen(stateBytes) {
		return f, false
	}
	b, err := browserSafe.DecodeString(state)
	if err != nil || len(b) != stateBytes || b[0] != stateVersion || !k.verify(b[signedBytes:], forState, b[:signedBytes]) {
		return f, false
	}
	f.issued = time.Unix(int64(binary.BigEndian.Uint64(b[1:9])), 0)
	copy(f.nonce[:], b[9:signedBytes])
	return f, true
}

// tagBytes is the length of a hash that recognizes a user without naming one.
const tagBytes = 16

func (k *stateKeys) userTag(f flow, user string) []byte {
	sum := sha256.Sum256(append(f.bytes(), user...))
	return sum[:tagBytes]
}

// sealCookie writes the value of the cookie that stays with the browser: the user's
// tag, a signature over everything, and the return address.
func (k *stateKeys) sealCookie(f flow, user, returnTo string) string {
	tag := k.userTag(f, user)
	mac := k.sign(forCookie, f.bytes(), tag, []byte(returnTo))
	b := append(append(append([]byte{}, tag...), mac...), returnTo...)
	return browserSafe.EncodeToString(b)
}

// openCookie reads the cookie that belongs to a flow. ours is false for a cookie
// that was not written for it, same is false if it was for another user.
func (k *stateKeys) openCookie(f flow, cookie, user string) (returnTo string, ours, same bool) {
	b, err := browserSafe.DecodeString(cookie)
	if err != nil || len(b) < tagBytes+sha256.Size {
		return "", false, false
	}
	tag, mac, rest := b[:tagBytes], b[tagBytes:tagBytes+sha256.Size], b[tagBytes+sha256.Size:]
	if !k.verify(mac, forCookie, f.bytes(), tag, rest) {
		return "", false, false
	}
	return string(rest), true, hmac.Equal(tag, k.userTag(f, user))
}

// id identifies the flow in the store of all replicas.
func (f flow) id() string { return browserSafe.EncodeToString(f.nonce[:]) }

// cookieSuffix names the cookie of one flow, so that flows in several tabs do
// not take each other's.
func (f flow) cookieSuffix() string { return browserSafe.EncodeToString(f.nonce[:6]) }
