//go:build unix

package histories_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// workerVariable makes this program a worker.
const workerVariable = "DISPENSARY_HISTORIES_WORKER"

// TestMain is also the processes that use a store.
func TestMain(m *testing.M) {
	if text := os.Getenv(workerVariable); text != "" {
		var w worker
		if err := json.Unmarshal([]byte(text), &w); err != nil {
			log.Fatal(err)
		}
		if err := w.run(os.Stdin, os.Stdout); !errors.Is(err, io.EOF) {
			log.Fatal(err)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// worker is a process that uses a store, as JSON in its environment.
type worker struct {
	Name     string
	Folder   string // of the histories
	Database database
}

// order is what a worker is to do, a line of its input.
type order struct {
	Round int // to play; it answers with a line
	Seed  uint64
	Cut   bool // its connections
}

// run does what it is ordered, and ends with its input.
func (w worker) run(in io.Reader, out io.Writer) error {
	var conns connections
	db, err := w.Database.open(&conns)
	if err != nil {
		return err
	}
	db.SetMaxIdleConns(goroutines)
	store, err := w.Database.store(db)
	if err != nil {
		return err
	}
	for lines := json.NewDecoder(in); ; {
		var o order
		if err := lines.Decode(&o); err != nil {
			return err
		}
		if o.Cut {
			conns.cut()
			continue
		}
		file, err := os.OpenFile(historyPath(w.Folder, w.Name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		go func() {
			playTokens(store, &history{out: file}, w.Name, o.Round, o.Seed)
			_ = file.Close()
			fmt.Fprintln(out, o.Round)
		}()
	}
}

func historyPath(folder, name string) string { return filepath.Join(folder, name+".history") }

// process is a worker that runs.
type process struct {
	command *exec.Cmd
	orders  *json.Encoder
	answers chan struct{} // closed when it has ended
}

// start starts a worker, which is killed with the test.
func start(t *testing.T, w worker) *process {
	t.Helper()
	settings, err := json.Marshal(w)
	require.NoError(t, err)
	p := &process{command: exec.CommandContext(t.Context(), os.Args[0]), answers: make(chan struct{})}
	p.command.Env = append(os.Environ(), workerVariable+"="+string(settings))
	p.command.Stderr = os.Stderr
	in, err := p.command.StdinPipe()
	require.NoError(t, err)
	p.orders = json.NewEncoder(in)
	out, err := p.command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.command.Start())
	go func() {
		defer close(p.answers)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			p.answers <- struct{}{}
		}
		_ = p.command.Wait()
	}()
	t.Cleanup(func() {
		_ = in.Close()
		_ = p.command.Process.Kill()
		for range p.answers { //nolint:revive // until it has ended
		}
	})
	return p
}

// fault is what is done to a process during a round.
type fault string

const (
	faultNone  fault = "none"
	faultKill  fault = "kill"
	faultPause fault = "pause"
	faultCut   fault = "cut"
)

// strike does a fault to the process some time later.
func (p *process) strike(f fault) {
	<-time.After(time.Duration(rand.IntN(40)) * time.Millisecond)
	switch f {
	case faultKill:
		_ = p.command.Process.Kill()
	case faultPause:
		_ = p.command.Process.Signal(syscall.SIGSTOP)
		<-time.After(time.Duration(rand.IntN(60)) * time.Millisecond)
		_ = p.command.Process.Signal(syscall.SIGCONT)
	case faultCut:
		_ = p.orders.Encode(order{Cut: true})
	}
}

// fleet is all processes that use a store.
type fleet struct {
	database database
	folder   string
	running  [processes]*process
	faults   map[fault]int
}

// play has all processes play a round, while a fault is done to one of them, and returns
// what they noted.
func (f *fleet) play(t *testing.T, round int) (lines []string) {
	t.Helper()
	for n := range f.running {
		if f.running[n] == nil {
			f.running[n] = start(t, worker{fmt.Sprint("p", n), f.folder, f.database})
		}
		require.NoError(t, f.running[n].orders.Encode(order{Round: round, Seed: rand.Uint64()}))
	}
	chosen := []fault{faultNone, faultKill, faultPause, faultCut}[rand.IntN(4)]
	f.faults[chosen]++
	victim := rand.IntN(processes)
	f.running[victim].strike(chosen)
	for n, p := range f.running {
		select {
		case _, goes := <-p.answers:
			if !goes || n == victim && chosen == faultKill {
				require.True(t, n == victim && chosen == faultKill, "process %d has ended", n)
				for range p.answers { //nolint:revive // until it has ended
				}
				f.running[n] = nil
			}
		case <-time.After(5 * time.Minute):
			require.Fail(t, "a process hangs", "%d", n)
		}
		path := historyPath(f.folder, fmt.Sprint("p", n))
		text, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			continue // it was killed before it did anything
		}
		require.NoError(t, err)
		require.NoError(t, os.Remove(path))
		lines = append(lines, strings.Split(string(text), "\n")...)
	}
	return lines
}
