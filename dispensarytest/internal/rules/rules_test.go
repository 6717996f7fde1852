package rules

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
)

func TestChooseFileAppliesVariants(t *testing.T) {
	t.Parallel()
	set := Defaults()
	require.NoError(t, set.ChooseFile([]byte(`{"version":1,"behaviors":["default-page-size=2","error-shape=text"]}`)))
	assert.Equal(t, 2, set.PageSize())
	assert.True(t, set.Is(behavior.ErrorShapeText))
	assert.Equal(t, behavior.ErrorShapeText, set.Chosen["error-shape"])
	require.NoError(t, set.ChooseFile([]byte(`{"version":1,"behaviors":[]}`)))
	assert.Equal(t, 2, set.PageSize(), "other choices stay")
	defaults := Defaults()
	assert.Equal(t, 25, defaults.PageSize())
}

func TestChooseFileRejectsInvalidFiles(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]string{
		``:                                   "not a file of behaviors: unexpected end",
		`[]`:                                 "not a file of behaviors: json",
		`{"behaviors":[]}`:                   "it has no version",
		`{"version":2,"points":{}}`:          "it has version 2; this program reads version 1",
		`{"version":1}`:                      "it has no behaviors",
		`{"version":1,"behaviors":null}`:     "it has no behaviors",
		`{"version":1,"behaviors":{}}`:       "cannot unmarshal object",
		`{"version":1,"behaviour":["x=y"]}`:  `unknown field "behaviour"`,
		`{"version":1,"behaviors":[]} {}`:    "not a file of behaviors",
		`{"version":1,"behaviors":["x"]}`:    `behaviors[0]: "x" is not of the form point=variant`,
		`{"version":1,"behaviors":["y=z"]}`:  `behaviors[0]: there is no behavior "y"`,
		`{"version":1,"behaviors":["prob"]}`: "not of the form",
		`{"version":1,"behaviors":["default-page-size=2","probes=off"]}`:  `behaviors[1]: there is no behavior "probes" (did you mean "probe"?)`,
		`{"version":1,"behaviors":["default-page-size=2","probe=never"]}`: `behaviors[1]: probe has no variant "never", only off, on-registration, before-each`,
		`{"version":1,"behaviors":["probe=off","probe=before-each"]}`:     "behaviors[1]: probe is set twice",
	} {
		set := Defaults()
		require.ErrorContains(t, set.ChooseFile([]byte(content)), want, content)
		assert.Equal(t, Defaults(), set, "an invalid file changes nothing")
	}
}

// A valid file gives a set of known variants. An invalid one is rejected and changes nothing.
func FuzzChooseFile(f *testing.F) {
	f.Add([]byte(`{"version":1,"behaviors":["default-page-size=2","error-shape=text"]}`))
	f.Add([]byte(`{"version":1,"behaviors":["probe=off","probe=off"]}`))
	f.Add([]byte(`{"version":1,"version":2,"behaviors":["a=b=c"]}`))
	f.Add([]byte(`{"VERSION":1,"Behaviors":[""]}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		set := Defaults()
		if err := set.ChooseFile(content); err != nil {
			assert.Equal(t, Defaults(), set)
			assert.NotContains(t, err.Error(), "dispensarytest: ")
			return
		}
		for _, variant := range set.Variants() {
			one := Defaults()
			require.NoError(t, one.Choose(variant))
		}
	})
}
