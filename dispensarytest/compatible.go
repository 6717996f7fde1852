package dispensarytest

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
)

// WithCompatibleChanges makes the platform one that has moved on by changes which
// the API calls non-breaking: every answer and every webhook has new keys, its
// keys come in another order, and ids are longer and not of the layout of a UUID.
// An integration must not notice. The same seed makes the same changes; 0 is no
// seed. API section: "Versioning" 3.
func WithCompatibleChanges(seed uint64) Option {
	return func(s *settings) error {
		if seed == 0 {
			return errors.New("dispensarytest: WithCompatibleChanges: 0 is no seed")
		}
		s.compatible = seed
		return nil
	}
}

// mutator changes an answer in ways that break nobody.
type mutator struct{ dice *rand.Rand }

// newMutator throws its dice by what it changes: the same body is always changed in
// the same way, a webhook that is sent again included.
func newMutator(seed uint64, body []byte) *mutator {
	h := fnv.New64a()
	h.Write(body)
	return &mutator{dice: rand.New(rand.NewPCG(seed, h.Sum64()))}
}

func (m *mutator) mutate(t *tree) {
	for _, item := range t.items {
		m.mutate(item)
	}
	if t.kind != '{' {
		return
	}
	for n := m.dice.IntN(3); n > 0; n-- {
		t.keys = append(t.keys, fmt.Sprintf("added_%d_%d", n, m.dice.IntN(1000)))
		t.items = append(t.items, m.novelty())
	}
	m.dice.Shuffle(len(t.items), func(i, j int) {
		t.items[i], t.items[j] = t.items[j], t.items[i]
		t.keys[i], t.keys[j] = t.keys[j], t.keys[i]
	})
}

// novelty is a value nobody has seen there before.
func (m *mutator) novelty() *tree {
	values := []string{`null`, `true`, `0`, `-1.5e3`, `"new"`, `""`, `"\u00e9\u4e16"`, `[]`, `["a",1,null]`, `{}`, `{"id":"x","name":null}`}
	novel, err := parseTree([]byte(values[m.dice.IntN(len(values))]))
	if err != nil {
		panic(err)
	}
	return novel
}
