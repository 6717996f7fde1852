// Package node tests an integration in another language against the stand-alone fake platform.
package node

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// node returns the path of Node, or skips the test.
func node(t *testing.T) string {
	t.Helper()
	name, err := exec.LookPath("node")
	if err != nil {
		t.Skip("there is no node on this machine")
	}
	return name
}

// platform builds the command as users do, runs it until the end of the test, and returns the URL of its
// control API.
func platform(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "dispensary")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", name, ".")
	build.Dir = filepath.FromSlash("../../cmd/dispensary")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)

	command := exec.Command(name, "fake", "--json")
	stdout, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		assert.NoError(t, command.Process.Signal(os.Interrupt))
		assert.NoError(t, command.Wait(), "it ends in order")
	})
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	require.NoError(t, err)
	var settings struct {
		ControlURL string `json:"control_url"`
	}
	require.NoError(t, json.Unmarshal(line, &settings))
	return settings.ControlURL
}

func TestWalk(t *testing.T) {
	t.Parallel()
	interpreter := node(t)
	address := platform(t)
	for range 2 { // the platform keeps its records, and the walk can be repeated
		out, err := exec.CommandContext(t.Context(), interpreter, "walk.mjs", address).CombinedOutput()
		require.NoError(t, err, "%s", out)
		output := string(out)
		assert.Len(t, regexp.MustCompile(`(?m)^ ?\d+\. `).FindAllString(output, -1), 10, output)
		assert.Contains(t, output, "received order.placed, and verified its signature")
		for _, hidden := range []string{"Robin", "example.com", "correct-horse"} {
			assert.NotContains(t, output, hidden, "the patient and the user are named nowhere")
		}
	}
}

func TestWalkFailsInOneLine(t *testing.T) {
	t.Parallel()
	interpreter := node(t)
	for _, test := range []struct {
		args []string
		code int
	}{
		{nil, 2},
		{[]string{"http://127.0.0.1:1/control"}, 1},
	} {
		command := exec.CommandContext(t.Context(), interpreter, append([]string{"walk.mjs"}, test.args...)...)
		out, err := command.CombinedOutput()
		require.Error(t, err)
		assert.Equal(t, test.code, command.ProcessState.ExitCode())
		assert.Equal(t, 1, strings.Count(string(out), "\n"), "%s", out)
	}
}
