package docs_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/docs"
)

// The ids are those of GitHub.
func TestAnchors(t *testing.T) {
	t.Parallel()
	var anchors docs.Anchors
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

// TestReliability holds that the tests are there which the page says hold the promises.
func TestReliability(t *testing.T) {
	t.Parallel()
	page, err := docs.Pages.ReadFile("reliability.md")
	require.NoError(t, err)
	named := regexp.MustCompile(`\[(Test\w+)\]\(([^)]+)\)`).FindAllStringSubmatch(string(page), -1)
	require.NotEmpty(t, named)
	for _, link := range named {
		source, err := os.ReadFile(link[2])
		require.NoError(t, err)
		assert.Contains(t, string(source), "func "+link[1]+"(", link[2])
	}
}
