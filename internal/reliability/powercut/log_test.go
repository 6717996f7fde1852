package powercut

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// played returns a machine on which the ops have been done.
func played(ops ...op) *machine {
	m := newMachine(&Log{ops: ops})
	for m.step() {
	}
	return m
}

// TestImage holds that what was synced is in every image, a file as soon as its folder was
// synced, and that what was not is in some, whole or by the sector.
func TestImage(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	synced, more := strings.Repeat("a", 2*sector), strings.Repeat("b", 2*sector)
	m := played(
		op{kind: opCreate, file: "f"},
		op{kind: opWrite, file: "f", data: []byte(synced)},
		op{kind: opSync, file: "f"},
		op{kind: opSyncFolder},
		op{kind: opCreate, file: "new"},
		op{kind: opSync, file: "new"},
		op{kind: opWrite, file: "f", offset: sector, data: []byte(more)},
	)
	assert.Equal(t, map[string][]byte{"f": []byte(synced)}, m.image(LoseAll, random))
	whole := synced[:sector] + more
	assert.Equal(t, map[string][]byte{"f": []byte(whole), "new": nil}, m.image(LoseNone, random))
	seen := map[string]bool{}
	for range 1000 {
		seen[string(m.image(LoseAny, random)["f"])] = true
	}
	hole := synced[:sector] + synced[:sector] + more[:sector]
	assert.Equal(t, map[string]bool{synced: true, whole: true, whole[:2*sector]: true, hole: true}, seen)
}

// TestImageAfterRemoval holds that a file which was removed can come back until its folder
// was synced, with what was synced of it.
func TestImageAfterRemoval(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	ops := []op{
		{kind: opCreate, file: "f"},
		{kind: opSyncFolder},
		{kind: opWrite, file: "f", data: []byte("lost")},
		{kind: opRemove, file: "f"},
	}
	m := played(ops...)
	assert.Equal(t, map[string][]byte{"f": nil}, m.image(LoseAll, random))
	assert.Empty(t, m.image(LoseNone, random))
	m = played(append(ops, op{kind: opSyncFolder})...)
	assert.Empty(t, m.image(LoseAll, random))
}
