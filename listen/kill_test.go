package listen_test

import (
	"context"
	"fmt"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/testsize"
	"github.com/dispensary-go/dispensary/listen"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/memoryinbox"
)

// TestMain is also the listener that the kill test kills.
func TestMain(m *testing.M) {
	if platform := os.Getenv("LISTEN_TEST_PLATFORM"); platform != "" {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		defer stop()
		if err := listenIn(ctx, platform); ctx.Err() == nil {
			log.Fatal(err)
		}
		return
	}
	os.Exit(m.Run())
}

type issued string

func (i issued) Token(context.Context) (dispensary.AccessToken, error) {
	return dispensary.AccessToken{Secret: dispensary.NewSecret(string(i)), Environment: sandbox}, nil
}

// listenIn is a listener in a process of its own.
func listenIn(ctx context.Context, platform string) error {
	client, err := dispensary.New(dispensary.Site{Environment: sandbox, BaseURL: platform, AuthURL: platform}, dispensary.WithTokenSource(issued(os.Getenv("LISTEN_TEST_TOKEN"))))
	if err != nil {
		return err
	}
	forwarder, err := listen.NewForwarder(listen.ForwarderConfig{URL: os.Getenv("LISTEN_TEST_ADDRESS"), Secret: api.NewSecret(secret), Challenge: api.NewSecret(challenge)})
	if err != nil {
		return err
	}
	listener, err := listen.New(listen.Config{
		Sources:   []listen.Source{{Environment: sandbox, Events: client.Events, Integrations: []string{"in_1"}}},
		Forwarder: forwarder, Cursor: os.Getenv("LISTEN_TEST_CURSOR"), Since: time.Hour,
		Interval: 100 * time.Millisecond, BackOff: time.Millisecond, MaxBackOff: 10 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	return listener.Run(ctx)
}

// killTest is a platform on which things happen, and a receiver that is down half of the
// time, in stretches: it refuses, breaks off, or forgets the challenge.
type killTest struct {
	platform *dispensarytest.Server
	total    int
	handler  http.Handler
	kill     chan struct{}

	mu       sync.Mutex
	made     map[string]int    // by event: in which order
	object   map[string]string // by event
	order    map[string]int    // by object: the event accepted last
	accepted int
	handled  map[webhook.Key]int
	again    int // requests with an event that was accepted before
	refused  int
	requests int
	stretch  int // requests until the receiver goes down or up
	down     int // how; 0 is up
	killAt   int // requests
	outOf    []string
}

// happen lets one more thing happen, unless all of it has.
func (k *killTest) happen() error {
	if len(k.made) == k.total {
		return nil
	}
	patients := k.platform.Patients.All()
	id := patients[rand.N(len(patients))].ID
	change := model.PatientChange{FirstName: new(fmt.Sprint("Arthur", len(k.made)))}
	_, e, err := k.platform.Patients.Edit(id, change)
	k.made[e.ID], k.object[e.ID] = len(k.made), id
	return err
}

func (k *killTest) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	k.mu.Lock()
	k.requests++
	if k.requests == k.killAt {
		k.stop()
	}
	if k.stretch--; k.stretch < 0 {
		k.stretch = rand.N(max(k.total/20, 10))
		if k.down > 0 {
			k.down = 0
		} else {
			k.down = 1 + rand.N(3)
		}
	}
	down := k.down
	if down > 0 {
		k.refused++
	}
	k.mu.Unlock()
	switch down {
	case 0:
		k.handler.ServeHTTP(w, r)
	case 1:
		http.Error(w, "down", http.StatusBadGateway)
	case 2:
		panic(http.ErrAbortHandler)
	}
}

func (k *killTest) observe(_ context.Context, o webhook.Observation) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if o.Outcome == webhook.OutcomeDuplicate {
		k.again++
		return
	}
	id := o.Key.EventID
	if n := k.made[id]; n < k.order[k.object[id]] {
		k.outOf = append(k.outOf, id)
	}
	k.order[k.object[id]] = k.made[id]
	k.accepted++
	if k.happen() != nil || k.accepted == k.total {
		k.stop()
	}
}

func (k *killTest) handle(ctx context.Context, _ events.Event) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.handled[webhook.HandlingFrom(ctx).Key]++
	return nil
}

// TestKill kills the listener at random while events happen and the address is down half of
// the time. Nothing is lost, everything is handled once by the inbox behind the address,
// and the events of an object arrive in order.
func TestKill(t *testing.T) {
	t.Parallel()
	testsize.SkipUnderRace(t)
	kills := testsize.Of(4, 50)
	k := &killTest{
		total: testsize.Of(400, 20_000), kill: make(chan struct{}, 1),
		made: map[string]int{}, object: map[string]string{}, order: map[string]int{}, handled: map[webhook.Key]int{},
	}
	k.platform = dispensarytest.New(t, dispensarytest.WithJournalLimit(10), dispensarytest.WithWorldSize(model.WorldSize{Patients: 50}))
	inbox, err := memoryinbox.New(memoryinbox.Config{Work: webhook.Work{Handle: k.handle}})
	require.NoError(t, err)
	k.handler, err = webhook.NewHandler(webhook.HandlerConfig{
		Environment: sandbox, Secrets: []api.Secret{api.NewSecret(secret)}, Challenge: api.NewSecret(challenge), Inbox: inbox, AcceptTimeout: time.Minute,
		Observer: webhook.Observer{RequestEnd: k.observe},
	})
	require.NoError(t, err)
	receiver := httptest.NewServer(k)
	t.Cleanup(receiver.Close)
	k.mu.Lock()
	for range k.total / 10 {
		require.NoError(t, k.happen())
	}
	k.mu.Unlock()

	token := k.platform.Tokens.Issue(model.User{}).AccessToken
	cursor := filepath.Join(t.TempDir(), "cursor.json")
	killed := 0
	for k.left() {
		k.mu.Lock()
		k.killAt = k.requests + 1 + rand.N(3*k.total/kills)
		if killed == kills {
			k.killAt = 0
		}
		require.NoError(t, k.happen()) // while the listener is off
		k.mu.Unlock()
		//nolint:gosec // The test binary runs itself.
		command := exec.CommandContext(t.Context(), os.Args[0])
		command.Env = append(os.Environ(), "LISTEN_TEST_PLATFORM="+k.platform.BaseURL(), "LISTEN_TEST_TOKEN="+token,
			"LISTEN_TEST_ADDRESS="+receiver.URL, "LISTEN_TEST_CURSOR="+cursor)
		command.Stderr = os.Stderr
		require.NoError(t, command.Start())
		ended := make(chan error, 1)
		go func() { ended <- command.Wait() }()
		select {
		case <-k.kill:
		case err := <-ended:
			t.Fatalf("the listener ended by itself: %v", err)
		case <-time.After(10 * time.Minute):
			t.Fatal("nothing happens")
		}
		if k.left() {
			require.NoError(t, command.Process.Kill())
			require.Error(t, <-ended)
			killed++
			continue
		}
		require.NoError(t, command.Process.Signal(os.Interrupt))
		require.NoError(t, <-ended)
	}
	require.NoError(t, inbox.Close(t.Context()))
	t.Logf("%d events; %d kills; %d requests, %d of them while the address was down, %d with an event that it had", k.total, killed, k.requests, k.refused, k.again)
	assert.Len(t, k.handled, k.total)
	for key, n := range k.handled {
		assert.Equal(t, 1, n, key)
	}
	assert.Empty(t, k.outOf, "out of order")
}

// stop has the listener killed, or ended.
func (k *killTest) stop() {
	select {
	case k.kill <- struct{}{}:
	default: // it is to be
	}
}

// left reports that events have not arrived.
func (k *killTest) left() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.accepted < k.total
}
