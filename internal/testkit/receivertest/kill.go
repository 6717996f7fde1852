package receivertest

import (
	"context"
	"fmt"
	"io"
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

// KillTest sends events to receivers at one address, see [Receiver], which are killed with
// SIGKILL after so and so many acknowledgements. [NewKillTest] makes one.
type KillTest struct {
	Folder string   // where the receivers write
	Keys   []string // of all events

	// Receivers is how many run at a time, and Environ what makes one of this program.
	Receivers int
	Environ   []string

	// Ended is called when a receiver has ended, before the next one takes its place,
	// and Cut when a third and two thirds of the deliveries have been acknowledged. Nil
	// functions are not called.
	Ended, Cut func()

	// Drained reports that everything which was sent has been handled.
	Drained func() bool

	// Pause is how long a sender waits after an acknowledgement.
	Pause time.Duration

	// Exits is how many receivers have ended by themselves, and not by a signal.
	Exits int

	bodies   [][]byte
	client   *http.Client
	socket   *os.File
	address  string
	progress chan struct{} // something was acknowledged

	mu    sync.Mutex
	acked map[string]bool

	acks, sent, refused    atomic.Int64
	killed, suicides, cuts int
	exitsInARow            int // with nothing acknowledged between them
	acksAtExit             int64
}

// maxExitsInARow is how many receivers may end by themselves before the test says that none
// can start. Each waits 10 ms longer than the one before, together most of a minute: a server
// that has no connection to spare for a moment fails no test.
const maxExitsInARow = 100

// NewKillTest makes a test with so many events for each of the integrations.
func NewKillTest(t *testing.T, total int, integrations ...string) *KillTest {
	t.Helper()
	if testing.Short() || runtime.GOOS == "windows" {
		t.Skip("kills processes for seconds, and has them inherit a socket")
	}
	k := &KillTest{
		Folder: t.TempDir(), Receivers: 1, acked: map[string]bool{}, progress: make(chan struct{}, 1),
		client: &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: Senders}},
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	k.address = "http://" + listener.Addr().String()
	// The receivers inherit the socket: who connects while none of them runs waits for
	// the next one.
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

// Run sends everything while receivers come and go, and then has the last ones work off
// what is left.
func (k *KillTest) Run(t *testing.T) {
	t.Helper()
	var group sync.WaitGroup
	t.Cleanup(group.Wait) // when the test's context has ended, which ends all of them
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
	for {
		select {
		case l := <-ended:
			k.count(l)
			require.Less(t, k.exitsInARow, maxExitsInARow, "no receiver can start; the last ones said:\n%s", k.lastLines(t))
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
		case <-t.Context().Done():
			return
		}
	}
}

// killAfter is the acknowledgement after which a receiver is killed next: a machine that
// is slow to start processes must not kill them all before they have done anything.
func (k *KillTest) killAfter(acks int) int {
	part := min(len(k.Keys)/10, 500)
	return acks + part/2 + rand.N(part)
}

// life is that of one receiver.
type life struct {
	receiver *exec.Cmd
	ctx      context.Context
	kill     context.CancelFunc
}

// start starts a receiver, which goes to ended at its end. What it says is appended to a
// file.
func (k *KillTest) start(t *testing.T, group *sync.WaitGroup, ended chan<- *life) *life {
	t.Helper()
	output, err := os.OpenFile(k.Folder+"/log", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	defer func() { _ = output.Close() }() // the receiver has its own
	ctx, kill := context.WithCancel(t.Context())
	l := &life{exec.CommandContext(ctx, os.Args[0]), ctx, kill}
	l.receiver.Env = append(os.Environ(), k.Environ...)
	l.receiver.ExtraFiles = []*os.File{k.socket}
	l.receiver.Stdout, l.receiver.Stderr = output, output
	_, err = l.receiver.StdinPipe() // whose end tells it that this process has ended
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
	case bySignal: // its own
		k.suicides++
	default:
		k.Exits++ // it could not start, for want of what it needs
	}
	k.exitsInARow++
	if acks := k.acks.Load(); bySignal || acks != k.acksAtExit {
		k.exitsInARow, k.acksAtExit = 0, acks
	}
	l.kill()
}

// lastLines returns the end of what the receivers have said.
func (k *KillTest) lastLines(t *testing.T) string {
	t.Helper()
	log, err := os.ReadFile(k.Folder + "/log")
	require.NoError(t, err)
	return string(log[max(0, len(log)-2000):])
}

// deliveries are the indices of all events, one in four twice, in any order.
func (k *KillTest) deliveries() []int {
	all := append(rand.Perm(len(k.Keys)), rand.Perm(len(k.Keys))[:len(k.Keys)/4]...)
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// send delivers until each of the deliveries has been acknowledged.
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

// deliver makes one attempt, as the platform does.
func (k *KillTest) deliver(t *testing.T, n int) (acknowledged bool) {
	k.sent.Add(1)
	defer func() {
		if !acknowledged {
			k.refused.Add(1)
		}
	}()
	request, err := Request(k.address, k.bodies[n])
	if err != nil {
		t.Error(err)
		return false
	}
	response, err := k.client.Do(request.WithContext(t.Context()))
	if err != nil {
		return false // killed meanwhile
	}
	answer, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if err != nil || response.StatusCode != http.StatusOK || !strings.Contains(string(answer), Challenge) {
		return false
	}
	k.mu.Lock()
	k.acked[k.Keys[n]] = true
	k.mu.Unlock()
	k.acks.Add(1)
	select {
	case k.progress <- struct{}{}:
	default: // it is seen with what came before
	}
	return true
}

// Acked returns the keys of what has been acknowledged.
func (k *KillTest) Acked() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Collect(maps.Keys(k.acked))
}

// Handled counts how often each event was handled.
func (k *KillTest) Handled(t *testing.T) map[string]int {
	t.Helper()
	log, err := os.ReadFile(k.Folder + "/handled")
	require.NoError(t, err)
	counts := map[string]int{}
	for line := range strings.Lines(string(log)) {
		counts[strings.TrimSuffix(line, "\n")]++
	}
	return counts
}

// Check holds that every event was acknowledged and handled, and that no receiver has
// logged a patient.
func (k *KillTest) Check(t *testing.T) {
	t.Helper()
	require.Len(t, k.Acked(), len(k.Keys))
	handled, again := k.Handled(t), 0
	for _, key := range k.Keys {
		require.GreaterOrEqual(t, handled[key], 1, "%s was acknowledged, and handled", key)
		again += handled[key] - 1
	}
	log, err := os.ReadFile(k.Folder + "/log")
	require.NoError(t, err)
	require.NotContains(t, string(log), Canary)
	t.Logf("%d events in %d deliveries, of which %d were refused or broken off; receivers killed %d times from outside, %d times between accept and answer, ended %d times by themselves; connections cut %d times; %d handled more than once",
		len(k.Keys), k.sent.Load(), k.refused.Load(), k.killed, k.suicides, k.Exits, k.cuts, again)
}

// CheckTables holds that every event is in the tables once, as one that is done, and had
// its effect once if it has one.
func (k *KillTest) CheckTables(t *testing.T, stored, done, effects map[string]int) {
	t.Helper()
	require.Len(t, stored, len(k.Keys))
	for _, key := range k.Keys {
		require.Equal(t, 1, stored[key], "%s is stored once", key)
		require.Equal(t, 1, done[key], "%s is done", key)
		require.Equal(t, HasEffect(key), effects[key] == 1, "%s had its effect", key)
		require.LessOrEqual(t, effects[key], 1, "%s had its effect once", key)
	}
}
