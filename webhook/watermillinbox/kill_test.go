package watermillinbox_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/internal/receivertest"
	"github.com/dispensary-go/dispensary/internal/testsize"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/watermillinbox"
	"github.com/dispensary-go/dispensary/webhook/watermillinbox/sqlkv"
)

// TestKillOnNATS has the platform send events, repeated and out of order and for
// two integrations, to three receivers behind one address, and kills one of them
// with SIGKILL again and again, and now and then between an accept and its answer.
// Twice the connections to the servers are cut. Nothing is acknowledged before it
// is in the store, nothing is lost, and nothing is there twice.
func TestKillOnNATS(t *testing.T) {
	url := address(t, natsVariable)
	_, js := natsConn(t)
	topic := unique()
	natsTopic(t, js, topic)
	store := buckets(t, js, topic)
	server, through := newProxy(t, url)
	k := &killTest{proxies: []*proxy{server}, stored: func() content { return messages(t, js, topic) }}
	k.run(t, receiver{NATS: through, Topic: topic}, store)
}

// TestKillOnRabbitMQ does the same with RabbitMQ and PostgreSQL.
func TestKillOnRabbitMQ(t *testing.T) {
	uri := address(t, rabbitVariable)
	open, db, name := table(t, sqlkv.PostgreSQL)
	rabbitTopic(t, uri, name)
	broker, rabbit := newProxy(t, uri)
	database, postgres := newProxy(t, address(t, postgresVariable))
	k := &killTest{proxies: []*proxy{broker, database}, stored: func() content { return rows(t, db, name) }}
	k.run(t, receiver{RabbitMQ: rabbit, Postgres: postgres, Topic: name}, open())
}

// TestKillOnRedis does the same with Redis Streams and MySQL.
func TestKillOnRedis(t *testing.T) {
	url := address(t, redisVariable)
	open, db, name := table(t, sqlkv.MySQL)
	redisTopic(t, url, name)
	broker, through := newProxy(t, url)
	dsn, err := mysql.ParseDSN(address(t, mysqlVariable))
	require.NoError(t, err)
	database, proxied := newProxy(t, "tcp://"+dsn.Addr)
	dsn.Addr = strings.TrimPrefix(proxied, "tcp://")
	k := &killTest{proxies: []*proxy{broker, database}, stored: func() content { return rows(t, db, name) }}
	k.run(t, receiver{Redis: through, MySQL: dsn.FormatDSN(), Topic: name}, open())
}

type killTest struct {
	proxies []*proxy
	stored  func() content

	total    int
	platform *dispensarytest.Server
	clock    *dispensarytest.Clock
	fleet    *fleet
	cuts     atomic.Int32
}

func (k *killTest) run(t *testing.T, r receiver, store watermillinbox.Store) {
	t.Helper()
	if runtime.GOOS == "windows" || !testsize.Full() {
		t.Skip("kills processes for a minute, and has them inherit sockets: only in full size")
	}
	k.total = 2000 // one for each integration counted apart
	k.clock = dispensarytest.FrozenClock(time.Now())
	k.platform = dispensarytest.New(t, dispensarytest.WithClock(k.clock), dispensarytest.WithIntegrations(2),
		dispensarytest.WithParallelDelivery(64), dispensarytest.WithDisorder(1, 10*time.Second), dispensarytest.WithUnconditionalDelivery(),
		dispensarytest.WithDeliveryTimeout(10*time.Second), dispensarytest.WithJournalLimit(1))
	k.platform.Fault(dispensarytest.Fault{Effect: dispensarytest.DeliveryRepeated, Chance: 0.25})
	r.Folder, r.Secret, r.Challenge = t.TempDir(), k.platform.Application().WebhookSecret, k.platform.Application().ChallengeToken
	k.fleet = newFleet(t, r, store)
	require.NoError(t, k.platform.RegisterWebhook(k.fleet.address))
	k.fleet.running.Go(k.cut)
	k.act(t)
	k.deliver(t)
	require.EqualValues(t, 2, k.cuts.Load())
	k.fleet.rest()
	k.wait(t, 0)
	k.check(t)
}

// act has the patients do things, a tenth of them to begin with, while the clock
// goes on. They wait where receivers that die all the time fall far behind.
func (k *killTest) act(t *testing.T) {
	t.Helper()
	people := k.platform.Platform()
	var patients []dispensarytest.Patient
	for n := range k.total / 2 {
		name := fmt.Sprint(receivertest.Canary, n)
		if n < k.total/20 {
			patient, _, err := people.RegisterPatient(dispensarytest.NewPatient{FirstName: name, LastName: name, Email: fmt.Sprintf("%s@example.com", name)})
			require.NoError(t, err)
			patients = append(patients, patient)
			continue
		}
		_, _, err := people.EditPatient(patients[n%len(patients)].ID, dispensarytest.PatientChange{FirstName: &name})
		require.NoError(t, err)
		k.clock.Advance(10 * time.Millisecond)
		if n%100 == 0 {
			k.wait(t, 1000)
		}
	}
}

// wait waits until no more than some events wait.
func (k *killTest) wait(t *testing.T, some int) {
	t.Helper()
	require.Eventually(t, func() bool {
		waiting := 0
		for _, err := range k.fleet.store.List(t.Context(), "pending.") {
			if waiting++; err != nil || waiting > some {
				return false
			}
		}
		return true
	}, 5*time.Minute, 50*time.Millisecond, "events wait for ever")
}

// cut cuts the connections when a third and two thirds of the events have been
// acknowledged.
func (k *killTest) cut() {
	for n := 1; n <= 2; n++ {
		for k.fleet.acks.Load() < int64(k.total*n/3) {
			select {
			case <-k.fleet.stop:
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
		for _, p := range k.proxies {
			p.cutFor(time.Second)
		}
		k.cuts.Add(1)
	}
}

// deliver lets the platform's time pass, a minute at a time, until everything has
// arrived: what failed is tried again after a minute at the earliest.
func (k *killTest) deliver(t *testing.T) {
	t.Helper()
	for all := false; !all; k.clock.Advance(time.Minute) {
		require.Eventually(t, func() bool {
			now := k.clock.Now()
			all = true
			for _, d := range k.platform.Deliveries() {
				all = all && d.Delivered
				if !d.Delivered && !d.NextAttemptAt.IsZero() && !d.NextAttemptAt.After(now) {
					return false
				}
			}
			return true
		}, 10*time.Minute, 100*time.Millisecond, "deliveries are under way for ever")
	}
}

func (k *killTest) check(t *testing.T) {
	t.Helper()
	log, err := os.ReadFile(k.fleet.receiver.Folder + "/handled")
	require.NoError(t, err)
	handled := map[string]int{}
	for line := range strings.Lines(string(log)) {
		handled[strings.TrimSuffix(line, "\n")]++
	}
	stored, done := map[string]int{}, 0
	all := k.stored()
	for _, entry := range all {
		if !strings.HasPrefix(entry.Key, "kept.event.") {
			continue
		}
		var e struct{ Key, State string }
		head, body, _ := bytes.Cut(entry.Value, []byte("\n"))
		require.NoError(t, json.Unmarshal(head, &e))
		stored[e.Key]++
		if e.State == "done" && len(body) == 0 {
			done++
		}
	}
	again := 0
	deliveries := k.platform.Deliveries()
	for _, d := range deliveries {
		key, err := webhook.Key{Environment: receivertest.Sandbox, EventID: d.EventID, IntegrationID: d.IntegrationID}.MarshalText()
		require.NoError(t, err)
		require.Equal(t, 1, stored[string(key)], "%s is stored once", key)
		require.GreaterOrEqual(t, handled[string(key)], 1, "%s was handled", key)
		again += handled[string(key)] - 1
	}
	require.Len(t, stored, len(deliveries))
	assert.Equal(t, len(deliveries), done)
	output, err := os.ReadFile(k.fleet.receiver.Folder + "/log")
	require.NoError(t, err)
	assert.NotContains(t, string(output), receivertest.Canary)
	assert.NotContains(t, string(all.bytes()), receivertest.Canary)
	k.platform.CheckNoLeak(t, string(output))
	t.Logf("%d events; %d acknowledgements, %d refusals; receivers killed %d times from outside and %d times between accept and answer; %d handled more than once",
		len(deliveries), k.fleet.acks.Load(), k.fleet.denied.Load(), k.fleet.kills.Load(), k.fleet.suicides.Load(), again)
}
