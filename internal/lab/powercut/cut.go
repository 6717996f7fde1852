package powercut

import (
	"hash/maphash"
	"maps"
	"math/rand/v2"
	"slices"
)

// Image is the state after a power cut: the files of the folder, and the promises given before the
// cut.
type Image struct {
	Files    map[string][]byte
	Promises []any
	Step     int // number of log steps before the cut
	Loss     Loss
}

// Cut yields at least wanted different images. It cuts after each step of the log with each loss,
// and repeats this until there are enough images or a repetition yields no new one.
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

// digest returns a hash of the files and the number of promises. Images with the same digest need
// one check.
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
