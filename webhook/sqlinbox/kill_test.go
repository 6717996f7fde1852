package sqlinbox_test

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
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
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/sqlinbox"
)

// TestKill kills the receiver with SIGKILL, after so and so many acknowledgements and
// between accepts and answers, while events come in, duplicated and out of order, for
// two integrations. Nothing is acknowledged before it is durable, nothing is lost,
// nothing is there twice, and what is written in the transaction of the inbox is
// written once.
func TestKill(t *testing.T) {
	if testing.Short() || runtime.GOOS == "windows" {
		t.Skip("kills processes for seconds, and has them inherit a socket")
	}
	k := newKillTest(t, testsize.Of(300, 20_000))
	k.run(t)
	k.check(t)
}

type killTest struct {
	folder  string
	address string
	socket  *os.File
	client  *http.Client
	keys    []string
	bodies  [][]byte

	mu     sync.Mutex
	acked  map[string]bool
	left   int           // acknowledgements
	enough chan struct{} // closed by the last of them

	sent, answered, refused atomic.Int64
	kills, suicides         int
}

func newKillTest(t *testing.T, total int) *killTest {
	t.Helper()
	k := &killTest{
		folder: t.TempDir(), acked: map[string]bool{},
		client: &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: receivertest.Senders}},
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	k.address = "http://" + listener.Addr().String()
	// The receivers inherit the socket: who connects while none of them runs
	// waits for the next one.
	k.socket, err = listener.(*net.TCPListener).File()
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	t.Cleanup(func() { _ = k.socket.Close() })
	for n := range total / 2 {
		for _, integration := range []string{"in_1", "in_2"} {
			key, err := webhook.Key{Environment: receivertest.Sandbox, EventID: fmt.Sprint("evt_", n), IntegrationID: integration}.MarshalText()
			require.NoError(t, err)
			k.keys, k.bodies = append(k.keys, string(key)), append(k.bodies, receivertest.Body(n, integration))
		}
	}
	db := k.open(t, k.folder)
	require.NoError(t, sqlinbox.Migrate(t.Context(), db))
	_, err = db.ExecContext(t.Context(), "CREATE TABLE effects (key TEXT NOT NULL)")
	require.NoError(t, err)
	require.NoError(t, db.Close())
	return k
}

func (k *killTest) open(t *testing.T, folder string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", folder+"/inbox.db")
	require.NoError(t, err)
	return db
}

// run sends everything while receivers come and go, and then has the last one
// work off what is left.
func (k *killTest) run(t *testing.T) {
	t.Helper()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		k.send(t)
	}()
	part := min(len(k.keys)/20, 500)
	for {
		receiver, ended := k.start(t)
		select {
		case <-ended: // between an accept and its answer
			k.suicides++
		case <-k.afterAcks(part + rand.N(2*part)):
			_ = receiver.Process.Kill()
			<-ended
			k.kills++
		case <-sent:
			t.Cleanup(func() {
				_ = receiver.Process.Kill()
				<-ended
			})
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			k.drain(ctx, t)
			return
		}
		k.checkAcked(t)
	}
}

// afterAcks returns a channel that is closed after some more acknowledgements: a
// machine that is slow to start processes must not kill them all before they have done
// anything.
func (k *killTest) afterAcks(n int) <-chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.left, k.enough = n, make(chan struct{})
	return k.enough
}

// start starts a receiver; its end closes the channel.
func (k *killTest) start(t *testing.T) (*exec.Cmd, <-chan struct{}) {
	t.Helper()
	receiver, err := receivertest.StartReceiver(k.socket, k.folder+"/log", "SQLINBOX_TEST_RECEIVER="+k.folder)
	require.NoError(t, err)
	ended := make(chan struct{})
	go func() {
		_ = receiver.Wait()
		close(ended)
	}()
	return receiver, ended
}

// send delivers every event, one in four twice, in any order, until each of the
// deliveries has been acknowledged.
func (k *killTest) send(t *testing.T) {
	deliveries := rand.Perm(len(k.keys))
	deliveries = append(deliveries, rand.Perm(len(k.keys))[:len(k.keys)/4]...)
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
				}
			}
		})
	}
	group.Wait()
}

// deliver makes one attempt, as the platform does.
func (k *killTest) deliver(t *testing.T, n int) bool {
	k.sent.Add(1)
	request, err := receivertest.Request(k.address+"/webhooks", k.bodies[n])
	if !assert.NoError(t, err) {
		return false
	}
	response, err := k.client.Do(request)
	if err != nil {
		return false // killed meanwhile
	}
	answer, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	k.answered.Add(1)
	if err != nil || response.StatusCode != http.StatusOK || !strings.Contains(string(answer), receivertest.Challenge) {
		k.refused.Add(1)
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.acked[k.keys[n]] = true
	if k.left--; k.left == 0 {
		close(k.enough)
	}
	return true
}

// checkAcked holds that everything that was acknowledged by a process that is
// dead now is in the database. It looks into a copy, so that the next process
// finds what a crash leaves.
func (k *killTest) checkAcked(t *testing.T) {
	t.Helper()
	copied := t.TempDir()
	for _, name := range []string{"inbox.db", "inbox.db-wal"} {
		content, err := os.ReadFile(filepath.Join(k.folder, name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(copied, name), content, 0o600))
	}
	db := k.open(t, copied)
	stored := countTexts(t, db, "SELECT key FROM dispensary_inbox")
	require.NoError(t, db.Close())
	require.NoError(t, os.RemoveAll(copied))
	k.mu.Lock()
	defer k.mu.Unlock()
	for key := range k.acked {
		require.Equal(t, 1, stored[key], "%s was acknowledged and is not there once", key)
	}
}

// countTexts counts the texts that a query returns.
func countTexts(t *testing.T, db *sql.DB, query string) map[string]int {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query)
	require.NoError(t, err)
	counts := map[string]int{}
	for rows.Next() {
		var text string
		require.NoError(t, rows.Scan(&text))
		counts[text]++
	}
	require.NoError(t, rows.Err())
	require.NoError(t, rows.Close())
	return counts
}

// drain waits until the receiver has handled everything.
func (k *killTest) drain(ctx context.Context, t *testing.T) {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, k.address+"/idle", nil)
	require.NoError(t, err)
	response, err := new(http.Client).Do(request)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusOK, response.StatusCode)
}

func (k *killTest) check(t *testing.T) {
	t.Helper()
	k.checkAcked(t)
	db := k.open(t, k.folder)
	defer func() { _ = db.Close() }()
	stored := countTexts(t, db, "SELECT key FROM dispensary_inbox")
	done := countTexts(t, db, "SELECT key FROM dispensary_inbox WHERE state = 6 AND attempts > 0 AND seq NOT IN (SELECT seq FROM dispensary_inbox_bodies)")
	effects := countTexts(t, db, "SELECT key FROM effects")
	log, err := os.ReadFile(k.folder + "/handled")
	require.NoError(t, err)
	handled := map[string]int{}
	for line := range strings.Lines(string(log)) {
		handled[strings.TrimSuffix(line, "\n")]++
	}
	require.Len(t, stored, len(k.keys))
	again := 0
	for _, key := range k.keys {
		require.Equal(t, 1, stored[key], "%s is stored once", key)
		require.Equal(t, 1, done[key], "%s is done", key)
		require.GreaterOrEqual(t, handled[key], 1, "%s was handled", key)
		require.Equal(t, len(key)%2, effects[key], "%s had its effect", key)
		again += handled[key] - 1
	}
	assert.NotContains(t, string(dump(t, k.folder+"/inbox.db")), receivertest.Canary)
	t.Logf("%d events in %d deliveries (%d answered, %d refused); receiver killed %d times from outside and %d times between accept and answer; %d handled more than once",
		len(k.keys), k.sent.Load(), k.answered.Load(), k.refused.Load(), k.kills, k.suicides, again)
}
