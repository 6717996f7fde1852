package dispensarytest

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/internal/testkit/testsize"
)

// answersTo returns the platform's responses under a behavior for each operation: to a valid
// request, to a request without the scope, and to an invalid one. Each request meets the same
// state of the platform.
func answersTo(t *testing.T, behavior behavior.Variant) map[string][]string {
	b := start(t, WithInMemory(), WithClock(frozen()))
	all, narrow := exemplars(t, b), b.with("catalog:read")
	snap := b.fake.state()
	require.NoError(t, b.fake.SetBehavior(behavior))
	answers := map[string][]string{}
	for id, e := range all {
		body, _ := e.body.(map[string]any)
		wrong := merged(body, "colour", "red")
		sep := "?"
		if strings.Contains(e.path, "?") {
			sep = "&"
		}
		for _, send := range []func() answer{
			func() answer { return b.send(e.op.Method, e.path, e.body) },
			func() answer { return narrow.send(e.op.Method, e.path, e.body) },
			func() answer { return b.send(e.op.Method, e.path+sep+"page[size]=0", wrong) },
			func() answer { return b.send(e.op.Method, e.path+sep+"page[size]=101&page[number]=9", wrong) },
		} {
			got := send()
			answers[id] = append(answers[id], fmt.Sprint(got.status, got.text))
			if e.op.Method != http.MethodGet {
				b.fake.restore(snap)
			}
		}
	}
	return answers
}

// A choice lists every operation whose responses it changes.
func TestBehaviorsChangeOnlyListedOperations(t *testing.T) {
	t.Parallel()
	testsize.SkipUnderRace(t)
	usual := answersTo(t, "probe=off")
	for _, s := range behavior.Choices() {
		for _, r := range s.Variants[1:] {
			t.Run(string(r), func(t *testing.T) {
				t.Parallel()
				for id, answers := range answersTo(t, r) {
					if !slices.Contains(s.Operations, id) {
						assert.Equal(t, usual[id], answers, id)
					}
				}
			})
		}
	}
}
