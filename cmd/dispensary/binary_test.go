package main

import (
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/internal/testkit/testsize"
)

// folder is the folder of the built command.
var folder string

func TestMain(m *testing.M) {
	if what := os.Getenv(asProgram); what != "" {
		os.Exit(runProgram(what))
	}
	var err error
	if folder, err = os.MkdirTemp("", "dispensary"); err != nil {
		log.Fatal(err)
	}
	code := m.Run()
	_ = os.RemoveAll(folder)
	os.Exit(code)
}

// binary builds the command once, with the race detector if the tests use it.
var binary = sync.OnceValues(func() (string, error) {
	name := filepath.Join(folder, "dispensary")
	command := exec.Command("go", "build", "-race="+strconv.FormatBool(testsize.Race), "-o", name, ".")
	command.Stderr = os.Stderr
	return name, command.Run()
})

func TestSignalEndsBinary(t *testing.T) {
	t.Parallel()
	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		command, _, lines := start(t)
		require.NoError(t, command.Process.Signal(signal))
		assert.False(t, lines.Scan(), "it prints nothing more")
		assert.NoError(t, command.Wait(), "exit code 0 after %s", signal)
	}
}

// A terminal and npm send the same Ctrl-C, see main.
func TestRepeatedSignalKeepsState(t *testing.T) {
	t.Parallel()
	command, _, _ := start(t, "--state", filepath.Join(t.TempDir(), "state.json"))
	for range 20_000 {
		require.NoError(t, command.Process.Signal(os.Interrupt))
	}
	assert.NoError(t, command.Wait(), "exit code 0")
}

func TestBinaryRejectsUnknownFlag(t *testing.T) {
	t.Parallel()
	name, err := binary()
	require.NoError(t, err)
	command := exec.CommandContext(t.Context(), name, "fake", "--bogus")
	require.Error(t, command.Run())
	assert.Equal(t, exitRefuse, command.ProcessState.ExitCode())
}
