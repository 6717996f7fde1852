package brokers_test

import (
	"encoding/json"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/internal/receivertest"
	"github.com/dispensary-go/dispensary/internal/testsize"
)

// replicas is how many receivers there are.
const replicas = 3

// TestKill sends events, one in four of them twice and in any order, to three receivers
// at one address, each of which is killed with SIGKILL when it has lived for a second.
// Twice the connections to the broker are cut. Every event that was acknowledged reaches a handler
// at least once, on every broker.
func TestKill(t *testing.T) {
	t.Parallel()
	if testing.Short() || runtime.GOOS == "windows" {
		t.Skip("kills processes for seconds, and has them inherit a socket")
	}
	one := make(chan struct{}, testsize.Of(6, 1)) // so that the figures of the full size are those of one broker
	eachBroker(t, func(t *testing.T, b broker) {
		one <- struct{}{}
		defer func() { <-one }()
		k := newKillTest(t, b, testsize.Of(200, 20_000))
		k.run(t)
	})
}

// killTest is one run on one broker.
type killTest struct {
	folder   string
	receiver string // the variable with a receiver's settings
	proxy    *proxy
	socket   *os.File
	address  string
	client   *http.Client
	bodies   [][]byte
	keys     []string
	every    time.Duration // a receiver is killed
	outage   time.Duration // is how long a cut lasts
	pause    time.Duration // of a sender after an acknowledgement

	mu    sync.Mutex
	acked map[string]bool

	sent, refused, kills, cuts atomic.Int64
}

func newKillTest(t *testing.T, b broker, total int) *killTest {
	t.Helper()
	k := &killTest{
		folder: t.TempDir(), acked: map[string]bool{},
		every: testsize.Of(300*time.Millisecond, time.Second/replicas), outage: testsize.Of(300*time.Millisecond, time.Second), pause: testsize.Of(400*time.Millisecond, 0),
		client: &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: receivertest.Senders}},
	}
	k.proxy, b.Address = newProxy(t, b.Address)
	settings, err := json.Marshal(receiver{Broker: b, Folder: k.folder})
	require.NoError(t, err)
	k.receiver = receiverVariable + "=" + string(settings)
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
		d := delivery(n, "in_1")
		k.keys, k.bodies = append(k.keys, d.Key.String()), append(k.bodies, d.Body)
	}
	return k
}

func (k *killTest) run(t *testing.T) {
	t.Helper()
	begin := time.Now()
	calm, stop := make(chan struct{}), make(chan struct{})
	var receivers sync.WaitGroup
	for n := range replicas {
		receivers.Go(func() { k.keepAlive(t, n, calm, stop) })
	}
	defer func() {
		close(stop)
		receivers.Wait()
	}()
	cutting := make(chan struct{})
	go func() {
		defer close(cutting)
		k.cutTwice(t)
	}()
	k.send(t)
	took := time.Since(begin)
	<-cutting
	close(calm)
	counts := map[string]int{}
	if !assert.Eventually(t, func() bool {
		counts = k.handled(t)
		return len(counts) == len(k.keys)
	}, testsize.Of(30*time.Second, 5*time.Minute), 100*time.Millisecond) {
		log, _ := os.ReadFile(k.folder + "/log")
		t.Logf("handled %d of %d events; the receivers said:\n%.20000s", len(counts), len(k.keys), log)
	}
	for _, key := range k.keys {
		require.True(t, k.acked[key], "%s was acknowledged", key)
		require.GreaterOrEqual(t, counts[key], 1, "%s was acknowledged, and handled", key)
	}
	log, err := os.ReadFile(k.folder + "/log")
	require.NoError(t, err)
	assert.NotContains(t, string(log), receivertest.Canary)
	again := -len(k.keys)
	for _, count := range counts {
		again += count
	}
	t.Logf("%s: %d events acknowledged and handled; %d deliveries, %d refused or broken off; %d receivers killed, connections cut %d times; %d handled again; acknowledged after %.1f s, handled after %.1f s",
		t.Name(), len(k.keys), k.sent.Load(), k.refused.Load(), k.kills.Load(), k.cuts.Load(), again, took.Seconds(), time.Since(begin).Seconds())
}

// keepAlive starts a receiver again and again, and kills each after its time: one of all
// receivers every k.every. Once it is calm it lets the last one live until stop.
func (k *killTest) keepAlive(t *testing.T, n int, calm, stop <-chan struct{}) {
	life := k.every * time.Duration(n+1) // so that they die in turn
	for {
		process, err := receivertest.StartReceiver(k.socket, k.folder+"/log", k.receiver)
		if !assert.NoError(t, err) {
			return
		}
		ended := make(chan error, 1)
		go func() { ended <- process.Wait() }()
		done := false
		select {
		case <-time.After(life):
			k.kills.Add(1)
		case <-calm:
			<-stop
			done = true
		case err := <-ended:
			assert.Fail(t, "a receiver ended by itself", "%v", err)
			return
		}
		_ = process.Process.Kill()
		<-ended
		if done {
			return
		}
		life = k.every * replicas
	}
}

// cutTwice cuts the connections to the broker when a third and two thirds of the events
// have been acknowledged.
func (k *killTest) cutTwice(t *testing.T) {
	for n := 1; n <= 2; n++ {
		for k.acks() < len(k.keys)*n/3 {
			if t.Context().Err() != nil {
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
		k.proxy.cut(k.outage)
		k.cuts.Add(1)
	}
}

func (k *killTest) acks() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.acked)
}

// send delivers every event, one in four twice, in any order, until each of the
// deliveries has been acknowledged.
func (k *killTest) send(t *testing.T) {
	deliveries := append(rand.Perm(len(k.keys)), rand.Perm(len(k.keys))[:len(k.keys)/4]...)
	rand.Shuffle(len(deliveries), func(i, j int) { deliveries[i], deliveries[j] = deliveries[j], deliveries[i] })
	queue := make(chan int, len(deliveries))
	for _, n := range deliveries {
		queue <- n
	}
	close(queue)
	var group sync.WaitGroup
	for range receivertest.Senders {
		group.Go(func() {
			for n := range queue {
				for !k.deliver(t, n) && t.Context().Err() == nil {
					time.Sleep(10 * time.Millisecond)
				}
				time.Sleep(k.pause)
			}
		})
	}
	group.Wait()
}

// deliver makes one attempt, as the platform does.
func (k *killTest) deliver(t *testing.T, n int) bool {
	k.sent.Add(1)
	request, err := receivertest.Request(k.address, k.bodies[n])
	if !assert.NoError(t, err) {
		return false
	}
	response, err := k.client.Do(request)
	if err != nil {
		k.refused.Add(1)
		return false // killed meanwhile
	}
	answer, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if err != nil || response.StatusCode != http.StatusOK || !strings.Contains(string(answer), receivertest.Challenge) {
		k.refused.Add(1)
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.acked[k.keys[n]] = true
	return true
}

// handled counts how often each event was handled.
func (k *killTest) handled(t *testing.T) map[string]int {
	log, err := os.ReadFile(k.folder + "/handled")
	assert.NoError(t, err)
	counts := map[string]int{}
	for line := range strings.Lines(string(log)) {
		counts[strings.TrimSuffix(line, "\n")]++
	}
	return counts
}
