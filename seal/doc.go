// Package seal encrypts secrets before they are stored: tokens in a database, bodies of
// webhooks in an inbox. Create a key ring from the keys in your secret store:
//
//	# openssl rand -base64 32
//	DISPENSARY_SEAL_KEYS="2026:q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA="
//
//	ring, err := seal.ParseKeyRing(api.NewSecret(os.Getenv("DISPENSARY_SEAL_KEYS")))
//
// # Usage
//
// Token stores and inboxes encrypt with an [AEAD]: authenticated encryption with associated
// data. Without its key, a ciphertext can be neither read nor changed. The associated data
// is the place to which a value belongs, so a ciphertext copied to another place does not
// decrypt.
//
// [KeyRing] is the AEAD of this package: AES-256-GCM from the standard library with any number
// of keys, one of which encrypts. The interface is the same as Tink's tink.AEAD. You can
// therefore use a Tink keyset instead, for example one from a key management service.
//
// # Rotation
//
// A new key takes three deployments without downtime. List the newest key first. A plus sign
// marks a pending key, which decrypts but does not encrypt yet:
//
//	+2027:…,2026:…   every process can decrypt values of 2027
//	2027:…,2026:…    2027 encrypts; values of 2026 decrypt and are stale
//	2027:…           once no value of 2026 is left
//
// Inboxes encrypt stale values again, see [Rotator]. Each refresh encrypts the tokens of its
// user again.
//
// If you remove a key too early, its values fail with [ErrUnknownKey] until you put the key
// back.
//
// # Limits
//
// A key may encrypt 2³² times, because its nonces are random. One new key per year is plenty
// for 100,000 users whose tokens are replaced every two hours.
package seal
