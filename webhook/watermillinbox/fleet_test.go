package watermillinbox_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/receivertest"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/watermillinbox"
)

// replicas is how many receivers there are.
const replicas = 3

// fleet is receivers behind one address, which die and are started again.
type fleet struct {
	*testing.T
	receiver receiver
	store    watermillinbox.Store // past all proxies
	address  string               // of them all
	client   *http.Client

	sockets  [replicas]*os.File
	addrs    [replicas]string
	kill     [replicas]chan struct{}
	finished chan struct{}
	running  sync.WaitGroup
	stop     chan struct{}

	mu     sync.Mutex
	onAck  []func() // the next one
	next   atomic.Int64
	acks   atomic.Int64
	denied atomic.Int64

	kills, suicides atomic.Int64
}

// newFleet starts the receivers, and what keeps them coming and going.
func newFleet(t *testing.T, r receiver, store watermillinbox.Store) *fleet {
	t.Helper()
	f := &fleet{
		T: t, receiver: r, store: store, finished: make(chan struct{}), stop: make(chan struct{}),
		client: &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 64}},
	}
	for n := range replicas {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		f.addrs[n], f.kill[n] = "http://"+listener.Addr().String(), make(chan struct{})
		// The receivers inherit the socket: who connects while this one is
		// away waits for its return.
		f.sockets[n], err = listener.(*net.TCPListener).File()
		require.NoError(t, err)
		require.NoError(t, listener.Close())
		f.running.Go(func() { f.keepAlive(n) })
	}
	balancer := httptest.NewServer(http.HandlerFunc(f.balance))
	f.address = balancer.URL
	f.running.Go(f.killAll)
	t.Cleanup(func() {
		f.rest()
		close(f.stop)
		balancer.Close()
		f.running.Wait()
		for _, socket := range f.sockets {
			_ = socket.Close()
		}
	})
	return f
}

// rest ends the killing. Calling it again does nothing.
func (f *fleet) rest() {
	f.mu.Lock()
	defer f.mu.Unlock()
	select {
	case <-f.finished:
	default:
		close(f.finished)
	}
}

// keepAlive starts a receiver again and again, until the fleet is stopped.
func (f *fleet) keepAlive(n int) {
	told, err := json.Marshal(f.receiver)
	assert.NoError(f, err)
	for {
		receiver, err := receivertest.StartReceiver(f.sockets[n], f.receiver.Folder+"/log", receiverVariable+"="+string(told))
		if !assert.NoError(f, err) {
			return
		}
		ended := make(chan struct{})
		go func() {
			_ = receiver.Wait()
			close(ended)
		}()
		select {
		case <-ended: // between an accept and its answer
			f.suicides.Add(1)
		case <-f.kill[n]:
			f.kills.Add(1)
		case <-f.stop:
			_ = receiver.Process.Kill()
			<-ended
			return
		}
		_ = receiver.Process.Kill()
		<-ended
	}
}

// killAll kills one receiver after the other, each a second after an
// acknowledgement: a machine that is slow to start processes must not kill them
// all before they have done anything.
func (f *fleet) killAll() {
	for n := 0; ; n = (n + 1) % replicas {
		select {
		case <-f.afterAck(time.Second):
		case <-f.finished:
			return
		}
		select {
		case f.kill[n] <- struct{}{}:
		case <-f.finished:
			return
		}
	}
}

func (f *fleet) afterAck(d time.Duration) <-chan time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	over := make(chan time.Time, 1)
	f.onAck = append(f.onAck, func() { time.AfterFunc(d, func() { over <- time.Now() }) })
	return over
}

// balance passes a request on to one of the receivers. What is acknowledged must
// be in the store by then.
func (f *fleet) balance(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	request, err := http.NewRequestWithContext(r.Context(), http.MethodPost, f.addrs[f.next.Add(1)%replicas], bytes.NewReader(body))
	assert.NoError(f, err)
	request.Header = r.Header.Clone()
	response, err := f.client.Do(request)
	if err != nil {
		f.denied.Add(1)
		w.WriteHeader(http.StatusBadGateway) // killed meanwhile
		return
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK || !strings.Contains(string(answer), f.receiver.Challenge) {
		f.denied.Add(1)
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	f.acknowledged(body)
	_, _ = w.Write(answer)
}

func (f *fleet) acknowledged(body []byte) {
	e, err := events.Parse(body)
	assert.NoError(f, err)
	name := watermillinbox.EventKey(webhook.Key{Environment: receivertest.Sandbox, EventID: e.ID, IntegrationID: e.IntegrationID})
	found, err := f.store.Get(f.Context(), name)
	if f.Context().Err() == nil {
		assert.NoError(f, err)
		assert.Len(f, found, 1, "acknowledged and not there")
	}
	f.acks.Add(1)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, tell := range f.onAck {
		tell()
	}
	f.onAck = nil
}
