package powercut

import (
	"hash/maphash"
	"maps"
	"math/rand/v2"
	"slices"
)

// Image is what is found after the power was cut: the files of the folder, and what had
// been promised.
type Image struct {
	Files    map[string][]byte
	Promises []any
	Step     int // of the log, after which it was cut
	Loss     Loss
}

// Cut yields wanted images or more, no two of them alike: those of a cut after each step of
// the log with each loss, once and again until there are enough.
func Cut(l *Log, wanted int, random *rand.Rand, yield func(Image) bool) {
	seen := map[uint64]bool{}
	for before := -1; len(seen) > before && len(seen) < wanted; {
		before = len(seen)
		for m := newMachine(l); m.step(); {
			for loss := range Loss(Losses) {
				image := Image{m.image(loss, random), slices.Clone(m.promises), m.next, loss}
				digest := image.digest()
				if !seen[digest] && !yield(image) {
					return
				}
				seen[digest] = true
			}
		}
	}
}

// digest differs between images that have to be checked both.
func (i Image) digest() uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	maphash.WriteComparable(&h, len(i.Promises))
	for _, name := range slices.Sorted(maps.Keys(i.Files)) {
		maphash.WriteComparable(&h, name)
		_, _ = h.Write(i.Files[name])
	}
	return h.Sum64()
}

var seed = maphash.MakeSeed()
