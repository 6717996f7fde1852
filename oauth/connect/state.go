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

// stateKeys sign and verify the data in the browser. The first key signs, and all keys verify.
type stateKeys struct {
	keys [][]byte
}

// newStateKeys derives a key from each given key and from the application. Signatures for
// another application or environment are therefore invalid.
func newStateKeys(keys []api.Secret, environment api.Environment, clientID string) (*stateKeys, error) {
	if len(keys) == 0 {
		return nil, errors.New("is empty")
	}
	k := &stateKeys{}
	for i, key := range keys {
		if len(key.Reveal()) < defaults.StateKeySize {
			return nil, errors.New("must contain at least " + strconv.Itoa(defaults.StateKeySize) + " random bytes in each key, but key " + strconv.Itoa(i+1) + " is shorter")
		}
		k.keys = append(k.keys, sign([]byte(key.Reveal()), "dispensary/oauth/state/1", []byte(environment.String()), []byte(clientID)))
	}
	return k, nil
}

// sign returns the HMAC-SHA-256 of a purpose and parts. The length precedes each part, so that
// different lists of parts are different messages.
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

// verify compares with the signature of every key in constant time.
func (k *stateKeys) verify(mac []byte, purpose string, parts ...[]byte) bool {
	good := false
	for _, key := range k.keys {
		good = hmac.Equal(mac, sign(key, purpose, parts...)) || good
	}
	return good
}

// flow is the content of a state: the start time and a random number. It contains no user,
// because the platform and everyone who can read URLs can see a state.
type flow struct {
	issued time.Time // whole seconds
	nonce  [16]byte
}

// The layout of a state in bytes: version, time, nonce, signature.
const (
	stateVersion = 1
	signedBytes  = 1 + 8 + 16
	stateBytes   = signedBytes + sha256.Size
)

// The purposes of signatures. A signature for one purpose is invalid for the other.
const (
	forState  = "state"
	forCookie = "cookie"
)

// browserSafe is strict, so that a state has only one spelling.
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

// sealState returns a signed state: 76 characters that need no escaping.
func (k *stateKeys) sealState(f flow) string {
	b := f.bytes()
	return browserSafe.EncodeToString(append(b, k.sign(forState, b)...))
}

// openState parses a state and reports whether its signature is valid.
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

// tagBytes is the length of a user tag: a hash that recognizes a user without naming one.
const tagBytes = 16

func (k *stateKeys) userTag(f flow, user string) []byte {
	sum := sha256.Sum256(append(f.bytes(), user...))
	return sum[:tagBytes]
}

// sealCookie returns the value of the flow's cookie: the user's tag, a signature of all parts,
// and the return address.
func (k *stateKeys) sealCookie(f flow, user, returnTo string) string {
	tag := k.userTag(f, user)
	mac := k.sign(forCookie, f.bytes(), tag, []byte(returnTo))
	b := append(append(append([]byte{}, tag...), mac...), returnTo...)
	return browserSafe.EncodeToString(b)
}

// openCookie parses the cookie of a flow. ours is false if the cookie was not signed for this
// flow. same is false if it belongs to another user.
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

// cookieSuffix returns the suffix of the cookie's name. It differs per flow, so that flows in
// several tabs do not interfere.
func (f flow) cookieSuffix() string { return browserSafe.EncodeToString(f.nonce[:6]) }
