package receivertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/webhook"
)

// KillTest sends events to several [Receiver] processes at one address, and repeatedly kills
// them with SIGKILL after a random number of acknowledgements. [NewKillTest] creates one.
type KillTest struct {
	Folder string   // output folder of the receivers
	Keys   []string // keys of all events

	// Receivers is the number of concurrent receivers. The default is 1. Environ is added to
	// the environment of this program to start it as a receiver.
	Receivers int
	Environ   []string

	// Ended is called after a receiver has ended, before its replacement starts. Cut is called
	// after one third and after two thirds of the deliveries are acknowledged. Nil functions
	// are not called.
	Ended, Cut func()

	// Drained reports whether all sent events are handled.
	Drained func() bool

	// Pause is the wait of a sender after each acknowledgement.
	Pause time.Duration

	// Exits is the number of receivers that exited without a signal.
	Exits int

	bodies   [][]byte
	client   *http.Client
	socket   *os.File
	address  string
	progress chan struct{} // signals an acknowledgement

	mu    sync.Mutex
	acked map[string]bool

	acks, sent, rejected   atomic.Int64
	killed, suicides, cuts int
	exitsInARow            int // exits without an acknowledgement between them
	acksAtExit             int64
}

// maxExitsInARow is the number of receiver exits in a row after which the test fails. Each
// restart waits 10 ms longer than the previous one, about 50 seconds in total. A database that
// briefly has no free connection therefore does not fail the test.
const maxExitsInARow = 100

// maxStall is the longest time without progress, which is a further event that was acknowledged or
// handled. It exceeds every takeover and backoff of a receiver many times.
const maxStall = 3 * time.Minute

// NewKillTest returns a test with total events for each integration. It skips the test on
// Windows and with -short.
func NewKillTest(t *testing.T, total int, integrations ...string) *KillTest {
	t.Helper()
	if testing.Short() || runtime.GOOS == "windows" {
		t.Skip("needs seconds to kill processes that inherit a socket")
	}
	k := &KillTest{
		Folder: t.TempDir(), Receivers: 1, acked: map[string]bool{}, progress: make(chan struct{}, 1),
		client: &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: Senders}},
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	k.address = "http://" + listener.Addr().String()
	// The receivers inherit the socket. If no receiver runs, a connection waits for the next
	// receiver.
	k.socket, err = listener.(*net.TCPListener).File()
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	t.Cleanup(func() { _ = k.socket.Close() })
	for n := range total {
		for _, integration := range integrations {
			key := webhook.Key{Environment: Sandbox, EventID: fmt.Sprint("evt_", n), IntegrationID: integration}
			k.Keys, k.bodies = append(k.Keys, key.String()), append(k.bodies, Body(n, integration))
		}
	}
	return k
}

// Run sends all events while receivers are killed and restarted. It then waits until the last
// receivers have handled the rest. It fails after 3 minutes without progress.
func (k *KillTest) Run(t *testing.T) {
	t.Helper()
	var group sync.WaitGroup
	t.Cleanup(group.Wait) // the context of the test has ended by then, and stops all receivers
	deliveries := k.deliveries()
	sent := make(chan struct{})
	group.Go(func() {
		defer close(sent)
		k.send(t, deliveries)
	})
	ended := make(chan *life, k.Receivers)
	var running []*life
	for range k.Receivers {
		running = append(running, k.start(t, &group, ended))
	}
	cuts := []int{len(deliveries) / 3, 2 * len(deliveries) / 3}
	nextKill := k.killAfter(0)
	var drained <-chan time.Time
	watch := time.NewTicker(maxStall / 20)
	defer watch.Stop()
	progress, since := 0, time.Now()
	for {
		select {
		case l := <-ended:
			k.count(l)
			require.Less(t, k.exitsInARow, maxExitsInARow, "no receiver can start; last output:\n%s", k.lastLines(t))
			running = slices.DeleteFunc(running, func(other *life) bool { return other == l })
			if k.Ended != nil {
				k.Ended()
			}
			_ = wait(t.Context(), time.Duration(k.exitsInARow)*10*time.Millisecond)
			running = append(running, k.start(t, &group, ended))
		case <-k.progress:
			acks := int(k.acks.Load())
			if acks >= nextKill {
				running[0].kill()
				nextKill = k.killAfter(acks)
			}
			if k.Cut != nil && len(cuts) > 0 && acks >= cuts[0] {
				k.Cut()
				k.cuts, cuts = k.cuts+1, cuts[1:]
			}
		case <-sent:
			sent, nextKill = nil, math.MaxInt
			ticker := time.NewTicker(50 * time.Millisecond)
			defer ticker.Stop()
			drained = ticker.C
		case <-drained:
			if k.Drained() {
				return
			}
		case <-watch.C:
			acked, handled := len(k.Acked()), len(k.Handled(t))
			if acked+handled > progress {
				progress, since = acked+handled, time.Now()
			}
			require.Less(t, time.Since(since), maxStall, "no progress: %d of %d events acknowledged, %d handled; last output:\n%s",
				acked, len(k.Keys), handled, k.lastLines(t))
		case <-t.Context().Done():
			return
		}
	}
}

// killAfter returns the number of acknowledgements after which the next receiver is killed. A
// time would be wrong: on a slow machine it might kill every receiver before its first
// acknowledgement.
func (k *KillTest) killAfter(acks int) int {
	part := min(len(k.Keys)/10, 500)
	return acks + part/2 + rand.N(part)
}

// life is one receiver process.
type life struct {
	receiver *exec.Cmd
	ctx      context.Context
	kill     context.CancelFunc
}

// start starts a receiver and sends it to ended after it ends. It appends the output of the
// receiver to the file "log".
func (k *KillTest) start(t *testing.T, group *sync.WaitGroup, ended chan<- *life) *life {
	t.Helper()
	output, err := os.OpenFile(k.Folder+"/log", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	defer func() { _ = output.Close() }() // the receiver has its own descriptor
	ctx, kill := context.WithCancel(t.Context())
	l := &life{exec.CommandContext(ctx, os.Args[0]), ctx, kill}
	l.receiver.Env = append(os.Environ(), k.Environ...)
	l.receiver.ExtraFiles = []*os.File{k.socket}
	l.receiver.Stdout, l.receiver.Stderr = output, output
	_, err = l.receiver.StdinPipe() // the receiver exits if its stdin is closed, as when this process ends
	require.NoError(t, err)
	require.NoError(t, l.receiver.Start())
	group.Go(func() {
		_ = l.receiver.Wait()
		ended <- l
	})
	return l
}

func (k *KillTest) count(l *life) {
	bySignal := l.receiver.ProcessState.ExitCode() < 0
	switch {
	case l.ctx.Err() != nil:
		k.killed++
	case bySignal: // it killed itself
		k.suicides++
	default:
		k.Exits++ // it could not start, such as without a database connection
	}
	k.exitsInARow++
	if acks := k.acks.Load(); bySignal || acks != k.acksAtExit {
		k.exitsInARow, k.acksAtExit = 0, acks
	}
	l.kill()
}

// lastLines returns the last 2,000 bytes of the receivers' output.
func (k *KillTest) lastLines(t *testing.T) string {
	t.Helper()
	log, err := os.ReadFile(k.Folder + "/log")
	require.NoError(t, err)
	return string(log[max(0, len(log)-2000):])
}

// deliveries returns the indexes of all events in random order, one in four twice.
func (k *KillTest) deliveries() []int {
	all := append(rand.Perm(len(k.Keys)), rand.Perm(len(k.Keys))[:len(k.Keys)/4]...)
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// send repeats each delivery until it is acknowledged.
func (k *KillTest) send(t *testing.T, deliveries []int) {
	together(len(deliveries), func(_, n int) (failed bool) {
		for !k.deliver(t, deliveries[n]) {
			if wait(t.Context(), 10*time.Millisecond) != nil {
				return true
			}
		}
		return wait(t.Context(), k.Pause) != nil
	})
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// deliver sends one webhook request. It reports whether the receiver acknowledged it as the
// platform requires.
func (k *KillTest) deliver(t *testing.T, n int) (acknowledged bool) {
	k.sent.Add(1)
	defer func() {
		if !acknowledged {
			k.rejected.Add(1)
		}
	}()
	request, err := Request(k.address, k.bodies[n])
	if err != nil {
		t.Error(err)
		return false
	}
	response, err := k.client.Do(request.WithContext(t.Context()))
	if err != nil {
		return false // the receiver was killed
	}
	body, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if err != nil || response.StatusCode != http.StatusOK || !strings.Contains(string(body), Challenge) {
		return false
	}
	k.mu.Lock()
	k.acked[k.Keys[n]] = true
	k.mu.Unlock()
	k.acks.Add(1)
	select {
	case k.progress <- struct{}{}:
	default: // Run has yet to read the previous signal
	}
	return true
}

// Acked returns the keys of the acknowledged events.
func (k *KillTest) Acked() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Collect(maps.Keys(k.acked))
}

// Handled returns the number of times that each event was handled, by its key.
func (k *KillTest) Handled(t *testing.T) map[string]int {
	t.Helper()
	log, err := os.ReadFile(k.Folder + "/handled")
	if !errors.Is(err, fs.ErrNotExist) { // no receiver has started yet
		require.NoError(t, err)
	}
	counts := map[string]int{}
	for line := range strings.Lines(string(log)) {
		counts[strings.TrimSuffix(line, "\n")]++
	}
	return counts
}

// Check fails the test unless every event was acknowledged and handled, and no receiver has
// logged the name of a patient.
func (k *KillTest) Check(t *testing.T) {
	t.Helper()
	require.Len(t, k.Acked(), len(k.Keys))
	handled, again := k.Handled(t), 0
	for _, key := range k.Keys {
		require.GreaterOrEqual(t, handled[key], 1, "%s was acknowledged but not handled", key)
		again += handled[key] - 1
	}
	log, err := os.ReadFile(k.Folder + "/log")
	require.NoError(t, err)
	require.NotContains(t, string(log), Canary)
	t.Logf("%d events in %d deliveries, %d of them rejected or interrupted; receivers killed %d times from outside and %d times between accept and response, exited %d times; connections cut %d times; %d repeated handlings",
		len(k.Keys), k.sent.Load(), k.rejected.Load(), k.killed, k.suicides, k.Exits, k.cuts, again)
}

// CheckTables fails the test unless every event is stored once, is done once, and had its
// effect once if [HasEffect]. The maps count rows by event key.
func (k *KillTest) CheckTables(t *testing.T, stored, done, effects map[string]int) {
	t.Helper()
	require.Len(t, stored, len(k.Keys))
	for _, key := range k.Keys {
		require.Equal(t, 1, stored[key], "rows of %s", key)
		require.Equal(t, 1, done[key], "done rows of %s", key)
		require.Equal(t, HasEffect(key), effects[key] == 1, "effect of %s", key)
		require.LessOrEqual(t, effects[key], 1, "effects of %s", key)
	}
}
