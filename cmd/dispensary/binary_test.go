package main

import (
	"bufio"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/internal/testsize"
)

// folder is where the command is built.
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

// binary builds the command once, with the race detector if the tests have it.
var binary = sync.OnceValues(func() (string, error) {
	name := filepath.Join(folder, "dispensary")
	command := exec.Command("go", "build", "-race="+strconv.FormatBool(testsize.Race), "-o", name, ".")
	command.Stderr = os.Stderr
	return name, command.Run()
})

func TestTheBinaryEndsInOrder(t *testing.T) {
	t.Parallel()
	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		command, _, lines := start(t)
		require.NoError(t, command.Process.Signal(signal))
		assert.False(t, lines.Scan(), "nothing more is said")
		assert.NoError(t, command.Wait(), "exit code 0 after %s", signal)
	}
}

func TestTheBinaryRefusesNonsense(t *testing.T) {
	t.Parallel()
	name, err := binary()
	require.NoError(t, err)
	command := exec.CommandContext(t.Context(), name, "fake", "--bogus")
	require.Error(t, command.Run())
	assert.Equal(t, exitRefuse, command.ProcessState.ExitCode())
}

// firstAnswer is how long it takes from the start of the process to its first
// answer.
func firstAnswer(t testing.TB, name string) time.Duration {
	t.Helper()
	free, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	at := free.Addr().String()
	require.NoError(t, free.Close())
	command := exec.CommandContext(t.Context(), name, "fake", "--json", "--addr", at)
	out, err := command.StdoutPipe()
	require.NoError(t, err)
	begin := time.Now()
	require.NoError(t, command.Start())
	lines := bufio.NewScanner(out)
	require.True(t, lines.Scan())
	answer, err := http.Get("http://" + at + "/api/clinic")
	taken := time.Since(begin)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.NoError(t, command.Process.Signal(os.Interrupt))
	require.NoError(t, command.Wait())
	return taken
}

// A test suite that starts the platform for every run does not wait for it. The best
// start counts: the others share the machine.
func BenchmarkFirstAnswer(b *testing.B) {
	name, err := binary()
	require.NoError(b, err)
	best := time.Hour
	for b.Loop() {
		best = min(best, firstAnswer(b, name))
	}
	b.ReportMetric(float64(best.Microseconds())/1000, "best-ms")
}
