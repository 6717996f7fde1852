package probe

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/oauth"
)

// The fake platform and this package have the same names for points and variants.
func TestPointsMatchFakePlatform(t *testing.T) {
	t.Parallel()
	var known, theirs []string
	for _, p := range slices.Concat(recordPoints(), listPoints(), planPoints(), logPoints(), tokenPoints()) {
		for _, variant := range p.variants {
			known = append(known, p.name+"="+variant)
		}
	}
	for _, choice := range behavior.Choices() {
		for _, v := range choice.Variants {
			theirs = append(theirs, string(v))
		}
	}
	assert.ElementsMatch(t, theirs, known)
}

// After the maximum number of requests, a run sends none and reports it for the other points.
func TestSessionStopsAtLimit(t *testing.T) {
	t.Parallel()
	fake := dispensarytest.New(t, dispensarytest.WithInMemory())
	s := newSession(t.Context(), Config{Application: oauth.Config{Site: fake.Site(), Transport: fake.HTTPClient().Transport}})
	s.sent = MaxRequests - 2
	findings := s.look(listPoints())
	assert.Len(t, fake.Journal.Requests(), 2)
	assert.Equal(t, MaxRequests, s.sent)
	last := findings[len(findings)-1]
	assert.Equal(t, Ambiguous, last.Verdict)
	assert.Equal(t, errLimit.Error(), last.Why)
}
