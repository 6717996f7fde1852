// Package ids derives ids, secrets and request numbers from a seed.
package ids

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"sync/atomic"
)

// Mix is the finalizer of splitmix64. It is cheap, and neighboring inputs give unrelated
// outputs. So ids look random and still follow from the seed.
func Mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9
	x = (x ^ (x >> 27)) * 0x94d049bb133111eb
	return x ^ (x >> 31)
}

// uuid formats 128 bits as a random UUID.
func uuid(hi, lo uint64) string {
	var raw [16]byte
	binary.BigEndian.PutUint64(raw[:8], hi&^0xf000|0x4000)
	binary.BigEndian.PutUint64(raw[8:], lo&^(0xc<<60)|0x8<<60)
	digits := hex.EncodeToString(raw[:])
	return digits[:8] + "-" + digits[8:12] + "-" + digits[12:16] + "-" + digits[16:20] + "-" + digits[20:]
}

// Of returns the n-th id of a kind for a seed.
func Of(seed uint64, kind string, n uint64) string {
	hash := uint64(0xcbf29ce484222325) // FNV-1a
	for _, b := range []byte(kind) {
		hash = (hash ^ uint64(b)) * 0x100000001b3
	}
	base := Mix(seed ^ hash)
	return uuid(Mix(base+n), Mix(^base+n*3))
}

// Requests numbers the requests of one platform.
type Requests struct {
	Base uint64
	n    atomic.Uint64
}

func (r *Requests) Next() string {
	n := r.n.Add(1)
	return uuid(Mix(r.Base+n), Mix(^r.Base+n))
}

// Secret derives a stable secret, so a standalone platform keeps its settings across restarts.
// It protects nothing, because all data here is fake.
func Secret(seed uint64, kind string) string {
	sum := sha256.Sum256([]byte(kind + "/" + strconv.FormatUint(seed, 16)))
	return hex.EncodeToString(sum[:])
}
