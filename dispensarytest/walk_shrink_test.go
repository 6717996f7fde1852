package dispensarytest

import (
	"fmt"
	"strings"
)

// disagreement is a sequence after whose last step platform and model say
// different things.
type disagreement struct {
	steps  []step
	did    []deed
	differ string
	met    map[string]int // moves and their answers, for the statistics
}

// replay walks a sequence on a fresh platform; nil when the two agree to the end.
func replay(l laws, steps []step) (*disagreement, map[string]int) {
	d := newDriver(l)
	defer d.fake.Close()
	for i, s := range steps {
		if differ := d.take(s); differ != "" {
			return &disagreement{steps: steps[:i+1], did: d.did, differ: differ, met: d.met}, d.met
		}
	}
	return nil, d.met
}

// shrink looks for a short sequence that ends in a disagreement: it leaves out
// ever smaller parts (delta debugging), then makes the numbers of what is left as
// small as they can be. It returns the result and how many replays it took.
func shrink(l laws, found *disagreement) (*disagreement, int) {
	replays := 0
	try := func(steps []step) bool {
		replays++
		smaller, _ := replay(l, steps)
		if smaller == nil {
			return false
		}
		found = smaller
		return true
	}
	for size := len(found.steps) / 2; size > 0; {
		shrunk := false
		for from := 0; from+size < len(found.steps); {
			without := append(append([]step(nil), found.steps[:from]...), found.steps[from+size:]...)
			if try(without) {
				shrunk = true
				continue // the next part now stands here
			}
			from += size
		}
		if !shrunk || size > 1 {
			size /= 2
		}
	}
	for i := 0; i < len(found.steps); i++ {
		for _, number := range []func(*step) *int{
			func(s *step) *int { return &s.a }, func(s *step) *int { return &s.b }, func(s *step) *int { return &s.c }, func(s *step) *int { return &s.d },
		} {
			for _, simple := range []int{1, 20} { // the first of a kind, or the latest; 0 stands for an unknown one
				simpler := append([]step(nil), found.steps...)
				if i >= len(simpler) || *number(&simpler[i]) == 1 {
					break
				}
				if *number(&simpler[i]) = simple; try(simpler) {
					break
				}
			}
		}
	}
	return found, replays
}

// String lists the steps as a person reads them.
func (f *disagreement) String() string {
	var text strings.Builder
	for i, line := range f.did {
		fmt.Fprintf(&text, "\n  %2d. %s", i+1, line)
	}
	fmt.Fprintf(&text, "\n      %s", f.differ)
	return text.String()
}
