package main

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Only the release workflow has secrets. It runs only for tags of the command. It pins each action by its
// commit, because a tag can move.
func TestOnlyReleaseWorkflowHasSecrets(t *testing.T) {
	t.Parallel()
	workflows, err := filepath.Glob("../../../.github/workflows/*")
	require.NoError(t, err)
	require.NotEmpty(t, workflows)
	for _, name := range workflows {
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		text := string(data)
		if filepath.Base(name) != "release.yml" {
			assert.NotRegexp(t, `secrets\.|: write`, text, name)
			continue
		}
		assert.Contains(t, text, "\non:\n  push:\n    tags: [\"cmd/dispensary/v*\"]\n\n")
		assert.Contains(t, text, "\npermissions: {}\n")
		for _, action := range regexp.MustCompile(`uses: (.*)`).FindAllStringSubmatch(text, -1) {
			assert.Regexp(t, `^[a-z/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`, action[1])
		}
	}
}
