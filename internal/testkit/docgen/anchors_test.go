package docgen_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dispensary-go/dispensary/internal/testkit/docgen"
)

func TestAnchorsMatchGitHub(t *testing.T) {
	t.Parallel()
	var anchors docgen.Anchors
	for _, test := range [][2]string{
		{"What the API leaves open", "what-the-api-leaves-open"},
		{"Client.Do", "clientdo"},
		{"Don't `panic`: a_b-c", "dont-panic-a_b-c"},
		{"Wheels", "wheels"},
		{" Wheels ", "wheels-1"},
		{"Wheels", "wheels-2"},
		{"Zoë", "zoë"},
	} {
		assert.Equal(t, test[1], anchors.ID(test[0]))
	}
}
