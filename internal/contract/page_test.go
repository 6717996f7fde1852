package contract_test

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/operation"
)

var update = flag.Bool("update", false, "write docs/platform.md anew")

const (
	pageFile   = "../../docs/platform.md"
	fakeFolder = "../../dispensarytest"
	fakePath   = "github.com/dispensary-go/dispensary/dispensarytest"

	modelFolder = fakeFolder + "/model"
	modelPath   = fakePath + "/model"
)

// The page says what tables, contract and documentation say, no more and no less.
func TestPlatformPage(t *testing.T) {
	t.Parallel()
	want := writePage(t)
	if *update {
		require.NoError(t, os.WriteFile(pageFile, []byte(want), 0o644))
		return
	}
	got, err := os.ReadFile(pageFile)
	require.NoError(t, err)
	require.Equal(t, want, string(got), "run this test with -update and read what changed")
}

// The page is complete, whether it was generated or written by hand.
func TestPlatformPageIsComplete(t *testing.T) {
	t.Parallel()
	page := writePage(t)
	has := func(text, about string) {
		assert.True(t, strings.Contains(page, text), "%s is missing: %s", about, text) // Contains would print the page
	}
	for _, op := range operation.All() {
		assert.Equal(t, 1, strings.Count(page, "\n| `"+op.Name+"` |"), op.Name)
	}
	for _, s := range dispensarytest.BehaviorChoices() {
		has("\n| `"+s.Name+"` |", "a choice")
		for _, r := range s.Variants {
			has("`"+r.Behavior.Variant()+"`", "a variant of "+s.Name)
		}
	}
	for _, e := range model.Effects() {
		has("\n| `"+string(e)+"` |", "an effect")
	}
	pkg := documentation(t, fakeFolder, fakePath)
	for _, option := range options(t, pkg) {
		has("\n| `"+option.Name+"` |", "an option")
	}
	assert.Greater(t, len(options(t, pkg)), 20)
	for _, heading := range []string{"Assumptions", "Deviations"} {
		for _, topic := range section(t, pkg, heading) {
			for _, statement := range topic.statements {
				has("\n- "+statement+"\n", "one of the "+heading)
			}
		}
	}
}
