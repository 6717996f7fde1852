// Package jsonrewrite changes JSON on its way out: it leaves out keys without a value,
// and adds what a client has to tolerate.
package jsonrewrite

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
)

// Mutator changes an answer in ways that break nobody.
type Mutator struct{ rng *rand.Rand }

// NewMutator throws its rng by what it changes: the same body is always changed in
// the same way, a webhook that is sent again included.
func NewMutator(seed uint64, body []byte) *Mutator {
	h := fnv.New64a()
	h.Write(body)
	return &Mutator{rng: rand.New(rand.NewPCG(seed, h.Sum64()))}
}

func (m *Mutator) Mutate(t *Value) {
	for _, item := range t.items {
		m.Mutate(item)
	}
	if t.kind != '{' {
		return
	}
	for n := m.rng.IntN(3); n > 0; n-- {
		t.keys = append(t.keys, fmt.Sprintf("added_%d_%d", n, m.rng.IntN(1000)))
		t.items = append(t.items, m.randomJSON())
	}
	m.rng.Shuffle(len(t.items), func(i, j int) {
		t.items[i], t.items[j] = t.items[j], t.items[i]
		t.keys[i], t.keys[j] = t.keys[j], t.keys[i]
	})
}

// randomJSON is a value that was not there before.
func (m *Mutator) randomJSON() *Value {
	values := []string{`null`, `true`, `0`, `-1.5e3`, `"new"`, `""`, `"\u00e9\u4e16"`, `[]`, `["a",1,null]`, `{}`, `{"id":"x","name":null}`}
	novel, err := Parse([]byte(values[m.rng.IntN(len(values))]))
	if err != nil {
		panic(err)
	}
	return novel
}
