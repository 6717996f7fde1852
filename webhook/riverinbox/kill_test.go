package riverinbox_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/receivertest"
	"github.com/dispensary-go/dispensary/internal/testsize"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/riverinbox"
)

// TestKill has the platform deliver events, repeated and out of order, to two
// integrations, through a balancer to three receivers. After so and so many
// acknowledgements one of them is killed with SIGKILL, some kill themselves between
// accept and answer, and the database ends all connections twice. Nothing is
// acknowledged before it is durable, nothing is lost, nothing is there twice, and
// what is written in the transaction of the inbox is written once.
func TestKill(t *testing.T) {
	if testing.Short() || runtime.GOOS == "windows" {
		t.Skip("kills processes for seconds, and has them inherit a socket")
	}
	k := newKillTest(t, testsize.Of(200, 20_000)) // each integration's copy counted
	k.deliver(t)
	k.drain(t)
	k.check(t)
}

type killTest struct {
	database
	pool         *pgxpool.Pool
	folder       string
	address      string // of the database, for receivers
	platform     *dispensarytest.Server
	keys         []string // of every event
	integrations []string
	replicas     []*replica
	balancer     *httptest.Server

	mu    sync.Mutex
	acked map[string]bool

	answers, refused              atomic.Int64
	kills, suicides, cuts, deaths atomic.Int64
}

func newKillTest(t *testing.T, total int) *killTest {
	t.Helper()
	k := &killTest{database: newDatabase(t), folder: t.TempDir(), acked: map[string]bool{}}
	k.pool = k.database.pool(t)
	require.NoError(t, riverinbox.Migrate(t.Context(), k.pool, riverinbox.Tables{}))
	require.NoError(t, riverinbox.MigrateRiver(t.Context(), k.pool, riverinbox.Tables{}))
	_, err := k.pool.Exec(t.Context(), "CREATE TABLE effects (key text NOT NULL)")
	require.NoError(t, err)
	address, err := url.Parse(k.database.address)
	require.NoError(t, err)
	query := address.Query()
	query.Set("search_path", k.schema)
	query.Set("application_name", k.schema)
	address.RawQuery = query.Encode()
	k.address = address.String()
	k.platform = dispensarytest.New(t,
		dispensarytest.WithClock(dispensarytest.FrozenClock(time.Now().Truncate(time.Second))),
		dispensarytest.WithIntegrations(2),
		dispensarytest.WithParallelDelivery(receivertest.Senders),
		dispensarytest.WithDisorder(1, 20*time.Second),
		dispensarytest.WithDeliveryTimeout(5*time.Second),
	)
	k.platform.Tokens.Issue(k.platform.Users()[0]) // events are sent only if a token may see them
	k.platform.Fault(model.Fault{Effect: model.DeliveryRepeated, Chance: 0.25, Seed: 1})
	for range 3 {
		k.replicas = append(k.replicas, k.newReplica(t))
	}
	k.balancer = httptest.NewServer(k.balance())
	t.Cleanup(k.balancer.Close)
	require.NoError(t, k.platform.Webhooks.Register(k.balancer.URL, model.EventTypes()...))
	k.keys = make([]string, 0, total)
	return k
}

// balance sends each request to the next receiver, once, and notes what is
// acknowledged.
func (k *killTest) balance() http.Handler {
	var next atomic.Int64
	return &httputil.ReverseProxy{
		Transport: &http.Transport{DisableKeepAlives: true}, // which would try again
		Rewrite: func(r *httputil.ProxyRequest) {
			body, err := io.ReadAll(r.In.Body)
			if err != nil {
				return
			}
			r.Out.Body = io.NopCloser(bytes.NewReader(body))
			*r.Out = *r.Out.WithContext(context.WithValue(r.Out.Context(), bodyKey{}, body))
			r.SetURL(k.replicas[int(next.Add(1))%len(k.replicas)].url)
		},
		ModifyResponse: k.note,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
			k.refused.Add(1)
			w.WriteHeader(http.StatusBadGateway)
		},
	}
}

type bodyKey struct{}

// note takes note of an answer.
func (k *killTest) note(answer *http.Response) error {
	k.answers.Add(1)
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return err // it ended in the middle
	}
	_ = answer.Body.Close()
	answer.Body = io.NopCloser(bytes.NewReader(text))
	if answer.StatusCode != http.StatusOK || !strings.Contains(string(text), k.platform.Application().ChallengeToken) {
		k.refused.Add(1)
		return nil
	}
	body, _ := answer.Request.Context().Value(bodyKey{}).([]byte)
	if len(body) == 0 {
		return nil // a probe
	}
	var envelope struct {
		Event struct {
			ID            string `json:"id"`
			IntegrationID string `json:"integration_id"`
		} `json:"event"`
	}
	if err := json.Unmarshal(body, &envelope); err != nil {
		return err
	}
	key, err := webhook.Key{Environment: receivertest.Sandbox, EventID: envelope.Event.ID, IntegrationID: envelope.Event.IntegrationID}.MarshalText()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.acked[string(key)] = true
	return err
}

// deliver has people edit patients until there are enough events, and lets the
// platform's time pass until all of them have been acknowledged. Meanwhile
// receivers and connections end.
func (k *killTest) deliver(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testsize.Of(5*time.Minute, time.Hour))
	defer cancel()
	pace := time.NewTicker(10 * time.Millisecond)
	defer pace.Stop()
	events := cap(k.keys) / 2
	nextKill := k.killAfter(0)
	cuts := []int{cap(k.keys) / 3, 2 * cap(k.keys) / 3} // acknowledgements after which connections end
	var patients []string
	for made := 0; ; {
		select {
		case <-ctx.Done():
			require.FailNow(t, "the events were not acknowledged in time")
		case <-pace.C:
			for range min(8, events-made) {
				patients = k.edit(t, patients)
				made++
			}
			k.platform.Clock().Advance(time.Second)
		}
		acked := k.ackedKeys()
		if acked >= nextKill {
			nextKill = k.killAfter(acked)
			k.checkAcked(t)
			if k.replicas[rand.IntN(len(k.replicas))].kill() {
				k.kills.Add(1)
			}
		}
		if len(cuts) > 0 && acked >= cuts[0] {
			cuts = cuts[1:]
			k.cut(t)
		}
		if made == events && acked >= cap(k.keys) {
			return
		}
	}
}

// killAfter is the acknowledgement after which a receiver is killed next: one that is
// slow to start has something to do before.
func (k *killTest) killAfter(acked int) int {
	part := min(cap(k.keys)/10, 500)
	return acked + part + rand.N(part)
}

// edit makes an event: of one of 100 patients, once there are so many.
func (k *killTest) edit(t *testing.T, patients []string) []string {
	t.Helper()
	name := receivertest.Canary
	if len(patients) < 100 {
		patient, event, err := k.platform.Patients.Register(model.NewPatient{FirstName: receivertest.Canary})
		require.NoError(t, err)
		k.expect(t, event)
		return append(patients, patient.ID)
	}
	name += strconv.Itoa(len(k.keys)) // a change, and as secret
	_, event, err := k.platform.Patients.Edit(patients[len(k.keys)%len(patients)], model.PatientChange{FirstName: &name})
	require.NoError(t, err)
	k.expect(t, event)
	return patients
}

// expect notes the keys of an event.
func (k *killTest) expect(t *testing.T, event model.Event) {
	t.Helper()
	if k.integrations == nil {
		for _, d := range k.platform.Webhooks.Deliveries() {
			k.integrations = append(k.integrations, d.IntegrationID)
		}
		require.Len(t, k.integrations, 2)
	}
	for _, integration := range k.integrations {
		key, err := webhook.Key{Environment: receivertest.Sandbox, EventID: event.ID, IntegrationID: integration}.MarshalText()
		require.NoError(t, err)
		k.keys = append(k.keys, string(key))
	}
}

func (k *killTest) ackedKeys() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.acked)
}

// cut ends all connections of receivers to the database.
func (k *killTest) cut(t *testing.T) {
	t.Helper()
	tag, err := k.pool.Exec(t.Context(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1", k.schema)
	require.NoError(t, err)
	k.cuts.Add(tag.RowsAffected())
}

// checkAcked holds that everything that was acknowledged is in the database.
func (k *killTest) checkAcked(t *testing.T) {
	t.Helper()
	k.mu.Lock()
	var acked []string
	for key := range k.acked {
		acked = append(acked, key)
	}
	k.mu.Unlock()
	var stored int
	err := k.pool.QueryRow(t.Context(), "SELECT count(*) FROM dispensary_inbox WHERE key = ANY ($1)", acked).Scan(&stored)
	require.NoError(t, err)
	require.Equal(t, len(acked), stored, "events were acknowledged and are not there")
}

// drain waits until the receivers have handled everything.
func (k *killTest) drain(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		var alive int
		err := k.pool.QueryRow(t.Context(), "SELECT count(*) FROM dispensary_inbox WHERE state < 3").Scan(&alive)
		return err == nil && alive == 0
	}, testsize.Of(5*time.Minute, time.Hour), 50*time.Millisecond)
}

func (k *killTest) check(t *testing.T) {
	t.Helper()
	k.checkAcked(t)
	stored := k.texts(t, "SELECT key FROM dispensary_inbox")
	done := k.texts(t, "SELECT key FROM dispensary_inbox WHERE state = 3 AND body IS NULL AND attempts > 0")
	effects := k.texts(t, "SELECT key FROM effects")
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
		want := 0
		if hasEffect(key) {
			want = 1
		}
		require.Equal(t, want, effects[key], "%s had its effect", key)
		again += handled[key] - 1
	}
	assert.NotContains(t, string(dump(t, k.database)), receivertest.Canary)
	output, err := os.ReadFile(k.folder + "/log")
	require.NoError(t, err)
	assert.NotContains(t, string(output), receivertest.Canary)
	t.Logf("%d events in %d answers and %d refusals; receivers killed %d times from outside, %d times between accept and answer, ended %d times by themselves; %d connections cut; %d handled more than once",
		len(k.keys), k.answers.Load(), k.refused.Load(), k.kills.Load(), k.suicides.Load(), k.deaths.Load(), k.cuts.Load(), again)
}

// texts counts the texts that a query returns.
func (k *killTest) texts(t *testing.T, query string) map[string]int {
	t.Helper()
	rows, err := k.pool.Query(t.Context(), query)
	require.NoError(t, err)
	texts, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	counts := map[string]int{}
	for text := range slices.Values(texts) {
		counts[text]++
	}
	return counts
}
