// Package seal keeps secrets unreadable where they are stored: tokens in a
// database, bodies of webhooks in an inbox.
//
// An [AEAD] turns bytes into a ciphertext that can neither be read nor changed
// without its key, and that opens only together with the associated data it was
// sealed with: the place where it belongs. A ciphertext that is copied to
// another place does not open there. The interface is that of Tink's tink.AEAD,
// so that a Tink keyset, which may be kept by a key management service, plugs in
// as it is.
//
// [KeyRing] is the AEAD of this package: AES-256-GCM from the standard library
// with any number of keys, one of which seals. Give it its keys as text:
//
//	# openssl rand -base64 32
//	DISPENSARY_SEAL_KEYS="2026:q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA="
//
//	ring, err := seal.ParseKeyRing(api.NewSecret(os.Getenv("DISPENSARY_SEAL_KEYS")))
//
// # Rotation
//
// A new key takes three deployments, none of which needs a pause. Keys are
// listed newest first; a plus sign marks one that opens and does not seal yet:
//
//	+2027:…,2026:…   every process can open what 2027 will seal
//	2027:…,2026:…    2027 seals; what 2026 sealed opens, and counts as stale
//	2027:…           when nothing is left that 2026 sealed
//
// Inboxes seal stale values again, see [Rotator]. Tokens are sealed again with each refresh.
//
// A key may seal 2³² times (its nonces are random): a new one a year is plenty
// for 100,000 users whose tokens are replaced every two hours. A key that is
// taken out too early is no disaster: what it sealed is [ErrUnknownKey] until it
// is put back.
package seal
