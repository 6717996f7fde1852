//go:build unix

package histories_test

import (
	"bufio"
	"bytes"
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

// workerVariable is the environment variable that starts this program as a worker.
const workerVariable = "DISPENSARY_HISTORIES_WORKER"

// TestMain runs the tests, or a worker process.
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

// worker contains the settings of a process that uses a store, as JSON in its environment.
type worker struct {
	Name     string
	History  string // file name of the history
	Kind     string // kind of store
	Mutant   string // name of the mistake, or ""
	Database database
}

// The kinds of stores.
const (
	kindTokens = "tokens"
	kindInbox  = "inbox"
)

// player makes the calls of a process.
type player interface {
	play(process string, round int, seed uint64)
	drain() // waits until all work is done
	cut()   // closes the connections
}

// order is a command for a worker, in one line of its input.
type order struct {
	Round int // play this round and reply with a line
	Seed  uint64
	Drain bool // wait until all work is done and reply with a line
	Cut   bool // cut the connections
}

// run carries out orders until its input ends.
func (w worker) run(in io.Reader, out io.Writer) error {
	file, err := os.OpenFile(w.History, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	open := openTokens
	if w.Kind == kindInbox {
		open = openInbox
	}
	player, err := open(w, &history{out: file})
	if err != nil {
		return err
	}
	for lines := json.NewDecoder(in); ; {
		var o order
		if err := lines.Decode(&o); err != nil {
			return err
		}
		switch {
		case o.Cut:
			player.cut()
		case o.Drain:
			player.drain()
			fmt.Fprintln(out)
		default:
			go func() {
				player.play(w.Name, o.Round, o.Seed)
				fmt.Fprintln(out)
			}()
		}
	}
}

// process is a running worker.
type process struct {
	command   *exec.Cmd
	orders    *json.Encoder
	history   io.Reader
	responses chan struct{} // replies; closed at the end of the process
}

// start starts a worker and kills it after the test.
func start(t *testing.T, w worker) *process {
	t.Helper()
	settings, err := json.Marshal(w)
	require.NoError(t, err)
	p := &process{command: exec.CommandContext(t.Context(), os.Args[0]), responses: make(chan struct{})}
	p.command.Env = append(os.Environ(), workerVariable+"="+string(settings))
	p.command.Stderr = os.Stderr
	in, err := p.command.StdinPipe()
	require.NoError(t, err)
	p.orders = json.NewEncoder(in)
	out, err := p.command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.command.Start())
	history, err := os.OpenFile(w.History, os.O_CREATE|os.O_RDONLY, 0o600)
	require.NoError(t, err)
	p.history = history
	go func() {
		defer close(p.responses)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			p.responses <- struct{}{}
		}
		_ = p.command.Wait()
	}()
	t.Cleanup(func() {
		_ = in.Close()
		_ = p.command.Process.Kill()
		p.await()
		_ = history.Close()
	})
	return p
}

// await waits until the process has ended.
func (p *process) await() {
	for range p.responses { //nolint:revive // ignores remaining replies
	}
}

// fault is a fault of a process during a round.
type fault string

const (
	faultNone  fault = "none"
	faultKill  fault = "kill"
	faultPause fault = "pause"
	faultCut   fault = "cut"
)

// strike causes a fault in the process after up to 40 ms. A faultPause lasts for pause, plus or
// minus up to half of it.
func (p *process) strike(f fault, pause time.Duration) {
	<-time.After(time.Duration(rand.IntN(40)) * time.Millisecond)
	switch f {
	case faultKill:
		_ = p.command.Process.Kill()
	case faultPause:
		_ = p.command.Process.Signal(syscall.SIGSTOP)
		<-time.After(pause/2 + rand.N(pause))
		_ = p.command.Process.Signal(syscall.SIGCONT)
	case faultCut:
		_ = p.orders.Encode(order{Cut: true})
	}
}

// fleet contains all processes that use a store.
type fleet struct {
	worker
	folder   string
	pause    time.Duration
	chosen   []fault // possible faults; each round has one of them
	running  []*process
	started  int
	faults   map[fault]int
	recorded bytes.Buffer // recorded lines of all processes
}

// newFleet returns a fleet of n processes.
func newFleet(t *testing.T, n int, w worker, pause time.Duration) *fleet {
	t.Helper()
	return &fleet{
		worker: w, folder: t.TempDir(), pause: pause, chosen: []fault{faultNone, faultKill, faultPause, faultCut},
		running: make([]*process, n), faults: map[fault]int{},
	}
}

// start starts the processes that are not running.
func (f *fleet) start(t *testing.T) {
	t.Helper()
	for n := range f.running {
		if f.running[n] == nil {
			w := f.worker
			w.Name = fmt.Sprintf("p%d.%d", n, f.started)
			w.History = filepath.Join(f.folder, w.Name)
			f.running[n] = start(t, w)
			f.started++
		}
	}
}

// play lets all processes play a round and causes a fault in one of them.
func (f *fleet) play(t *testing.T, round int) {
	t.Helper()
	f.start(t)
	for _, p := range f.running {
		require.NoError(t, p.orders.Encode(order{Round: round, Seed: rand.Uint64()}))
	}
	chosen := f.chosen[rand.IntN(len(f.chosen))]
	f.faults[chosen]++
	victim := rand.IntN(len(f.running))
	f.running[victim].strike(chosen, f.pause)
	for n, p := range f.running {
		killed := n == victim && chosen == faultKill
		f.responded(t, p, killed)
		if killed {
			p.await()
		}
		_, err := io.Copy(&f.recorded, p.history)
		require.NoError(t, err)
		if killed {
			f.recorded.WriteByte('\n') // ends an incomplete line
			f.running[n] = nil
		}
	}
}

// responded waits for the reply of a process, or its end.
func (f *fleet) responded(t *testing.T, p *process, mayEnd bool) {
	t.Helper()
	select {
	case _, goes := <-p.responses:
		require.True(t, goes || mayEnd, "a process has ended unexpectedly")
	case <-time.After(5 * time.Minute):
		require.Fail(t, "a process hangs")
	}
}

// drain waits until all work is done and ends all processes.
func (f *fleet) drain(t *testing.T) {
	t.Helper()
	f.start(t)
	for _, p := range f.running {
		require.NoError(t, p.orders.Encode(order{Drain: true}))
		f.responded(t, p, false)
	}
	for n, p := range f.running {
		_ = p.command.Process.Kill()
		p.await()
		_, err := io.Copy(&f.recorded, p.history)
		require.NoError(t, err)
		f.recorded.WriteByte('\n')
		f.running[n] = nil
	}
}

// notes returns the lines recorded since its last call.
func (f *fleet) notes() []string {
	defer f.recorded.Reset()
	return strings.Split(f.recorded.String(), "\n")
}
