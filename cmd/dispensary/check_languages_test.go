package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/internal/doctor"
	"github.com/dispensary-go/dispensary/internal/testkit/mistakes"
)

// language is an example of a receiver in another language.
type language struct {
	interpreter, source string

	// Replacing right by wrong in the source makes the case fails fail.
	right, wrong string
	fails        string
}

var languages = map[string]language{
	"Node": {
		"node", "../../examples/node/receiver.mjs",
		"return Buffer.concat(chunks)", "return Buffer.from(chunks.map(String).join(''))", "Bodies/Characters",
	},
	"Python": {
		"python3", "../../examples/python/receiver.py",
		"abs(time.time() - int(match[1])) > TOLERANCE", "time.time() - int(match[1]) > TOLERANCE", "Signature/Future",
	},
}

// starts runs the source of a receiver until the end of the test and returns its URL.
func (l language) starts(t *testing.T, source string) string {
	t.Helper()
	interpreter, err := exec.LookPath(l.interpreter)
	if err != nil {
		t.Skip(l.interpreter + " is not installed")
	}
	file := filepath.Join(t.TempDir(), filepath.Base(l.source))
	require.NoError(t, os.WriteFile(file, []byte(source), 0o600))
	command := exec.Command(interpreter, file, "0")
	command.Env = append(os.Environ(), "WEBHOOK_SECRET="+mistakes.Secret, "WEBHOOK_CHALLENGE="+mistakes.Challenge)
	command.Stderr = os.Stderr
	stdout, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		assert.NoError(t, command.Process.Kill())
		_ = command.Wait() // the error of the kill
	})
	url, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	return strings.TrimSpace(url)
}

func TestCheckPassesOtherLanguages(t *testing.T) {
	t.Parallel()
	for name, l := range languages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source, err := os.ReadFile(l.source)
			require.NoError(t, err)
			f := checkFixture(t)
			code, out, stderr := f.run(checks(l.starts(t, string(source)), "--json", "--timeout", mistakes.Patience.String())...)
			assert.Equal(t, exitDone, code, stderr+out)
			assert.Len(t, rowsFor(t, out), 44)
		})
	}
}

func TestCheckFindsMistakesOfOtherLanguages(t *testing.T) {
	t.Parallel()
	for name, l := range languages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			right, err := os.ReadFile(l.source)
			require.NoError(t, err)
			source := strings.Replace(string(right), l.right, l.wrong, 1)
			require.NotEqual(t, string(right), source)
			url := l.starts(t, source)
			var failed []string
			for range 5 { // a slow receiver may read a body sent in parts at once
				f := checkFixture(t)
				_, out, _ := f.run(checks(url, "--json", "--timeout", mistakes.Patience.String())...)
				for _, row := range rowsFor(t, out) {
					if row.Status == doctor.StatusFail {
						failed = append(failed, row.Check)
					}
				}
				if failed != nil {
					break
				}
			}
			assert.Contains(t, failed, l.fails)
		})
	}
}
