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
	History  string // the file
	Kind     string // of store
	Mutant   string // the mistake that is made, if one is
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
	drain() // waits until nothing is left to be done
	cut()   // ends the connections
}

// order is what a worker is to do, a line of its input.
type order struct {
	Round int // to play; it answers with a line
	Seed  uint64
	Drain bool // or wait until all is done; it answers with a line
	Cut   bool // or cut its connections
}

// run does what it is ordered, and ends with its input.
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

// process is a worker that runs.
type process struct {
	command *exec.Cmd
	orders  *json.Encoder
	history io.Reader
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
	history, err := os.OpenFile(w.History, os.O_CREATE|os.O_RDONLY, 0o600)
	require.NoError(t, err)
	p.history = history
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
		p.await()
		_ = history.Close()
	})
	return p
}

// await waits until the process has ended.
func (p *process) await() {
	for range p.answers { //nolint:revive // they are of no interest
	}
}

// fault is what is done to a process during a round.
type fault string

const (
	faultNone  fault = "none"
	faultKill  fault = "kill"
	faultPause fault = "pause"
	faultCut   fault = "cut"
)

// strike does a fault to the process some time later, as a pause one of about so long,
// shorter or longer by up to a half.
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

// fleet is all processes that use a store.
type fleet struct {
	worker
	folder  string
	pause   time.Duration
	chosen  []fault // from which one is done in each round
	running []*process
	started int
	faults  map[fault]int
	noted   bytes.Buffer // by all of them
}

// newFleet returns so many processes.
func newFleet(t *testing.T, n int, w worker, pause time.Duration) *fleet {
	t.Helper()
	return &fleet{
		worker: w, folder: t.TempDir(), pause: pause, chosen: []fault{faultNone, faultKill, faultPause, faultCut},
		running: make([]*process, n), faults: map[fault]int{},
	}
}

// start starts the processes that do not run.
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

// play has all processes play a round, while a fault is done to one of them.
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
		f.answered(t, p, killed)
		if killed {
			p.await()
		}
		_, err := io.Copy(&f.noted, p.history)
		require.NoError(t, err)
		if killed {
			f.noted.WriteByte('\n') // after what was not written to its end
			f.running[n] = nil
		}
	}
}

// answered waits for the answer of a process, or its end.
func (f *fleet) answered(t *testing.T, p *process, mayEnd bool) {
	t.Helper()
	select {
	case _, goes := <-p.answers:
		require.True(t, goes || mayEnd, "a process has ended")
	case <-time.After(5 * time.Minute):
		require.Fail(t, "a process hangs")
	}
}

// drain waits until nothing is left to be done, and ends all processes.
func (f *fleet) drain(t *testing.T) {
	t.Helper()
	f.start(t)
	for _, p := range f.running {
		require.NoError(t, p.orders.Encode(order{Drain: true}))
		f.answered(t, p, false)
	}
	for n, p := range f.running {
		_ = p.command.Process.Kill()
		p.await()
		_, err := io.Copy(&f.noted, p.history)
		require.NoError(t, err)
		f.noted.WriteByte('\n')
		f.running[n] = nil
	}
}

// notes returns what was noted since it was last called.
func (f *fleet) notes() []string {
	defer f.noted.Reset()
	return strings.Split(f.noted.String(), "\n")
}
