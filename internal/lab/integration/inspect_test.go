package integration_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/integration"
	"github.com/dispensary-go/dispensary/integration/doctor"
	"github.com/dispensary-go/dispensary/internal/testkit/postgrestest"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// This process runs a healthy integration. Doctor opens its databases a second time, as another
// process would. All checks pass, except for those that cannot work from outside.
func TestDoctorPassesHealthyIntegration(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		address func(*testing.T) string
		skipped []string
	}{
		"SQLite":     {func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "ehr.db") }, []string{"inbox sealed", "database TLS"}},
		"PostgreSQL": {func(t *testing.T) string { return postgrestest.Schema(t) }, []string{"secret files"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := test.address(t)
			f := newFixture(t).kept(address, address)
			i := f.open(t, f.setup(succeed))
			f.connect(t, us, "us:17")
			stop := running(t, i)
			require.Eventually(t, func() bool { return !i.Reconcilers[us].Stats().Taken.IsZero() }, time.Minute, time.Millisecond)
			seen, err := integration.Inspect(t.Context(), f.config(t), us)
			require.NoError(t, err)
			config := doctorConfig(f.config(t), seen)
			config.Webhook.URL, config.Operations = f.server.URL+"/webhooks/us-sandbox", []string{"patients.create"}
			report, err := doctor.Run(t.Context(), config)
			require.NoError(t, err)
			var skipped []string
			for _, row := range report.Rows {
				if row.Status == doctor.StatusSkip {
					skipped = append(skipped, row.Check)
					continue
				}
				assert.Equal(t, doctor.StatusPass, row.Status, row)
			}
			assert.Equal(t, test.skipped, skipped)
			require.NoError(t, seen.Close(t.Context()))
			require.Eventually(t, func() bool {
				stats, err := i.Inbox.Stats(t.Context())
				return assert.NoError(t, err, "the inbox of the integration stays open") && stats == (engine.Stats{})
			}, time.Minute, time.Millisecond, "the activation event is still in the inbox")
			stop()
		})
	}
}

// doctorConfig returns the same configuration as cmd/dispensary.
func doctorConfig(c integration.Config, seen *integration.Inspection) doctor.Config {
	config := doctor.Config{
		OAuth: seen.OAuth, Store: seen.Store, StoreErr: seen.StoreErr, Inbox: seen.Inbox, InboxErr: seen.InboxErr, SecretFiles: seen.SecretFiles,
	}
	for _, a := range c.Applications {
		if a.Site.Environment == seen.OAuth.Site.Environment {
			config.ClinicKey = a.ClinicKey
			config.Webhook = doctor.Webhook{Secrets: a.WebhookSecrets, Challenge: a.WebhookChallenge}
		}
	}
	for _, d := range seen.Databases {
		config.Databases = append(config.Databases, doctor.Database(d))
	}
	return config
}

func TestInspectReportsFailures(t *testing.T) {
	t.Parallel()
	absent := "sqlite:" + filepath.Join(t.TempDir(), "absent.db")
	f := newFixture(t).kept(absent, absent)
	seen, err := integration.Inspect(t.Context(), f.config(t), canada)
	require.NoError(t, err)
	require.ErrorIs(t, seen.StoreErr, fs.ErrNotExist)
	require.ErrorIs(t, seen.InboxErr, fs.ErrNotExist)
	require.NoError(t, seen.Close(t.Context()))

	away := "postgres://postgres@127.0.0.1:1/test?connect_timeout=1"
	seen, err = integration.Inspect(t.Context(), f.kept(away, away).config(t), canada)
	require.NoError(t, err)
	for _, err := range []error{seen.StoreErr, seen.InboxErr} {
		require.Error(t, err)
		require.NotErrorIs(t, err, fs.ErrNotExist)
	}
	report, err := doctor.Run(t.Context(), doctorConfig(f.config(t), seen))
	require.NoError(t, err)
	for _, row := range report.Rows {
		if row.Check == "store" || row.Check == "inbox" {
			assert.Equal(t, "connection refused", row.Seen)
		}
	}
	require.NoError(t, seen.Close(t.Context()))

	made := f.kept("memory:", "memory:").config(t)
	seen, err = integration.Inspect(t.Context(), made, us)
	require.NoError(t, err)
	assert.Nil(t, seen.Store, "the store is in the memory of another process")
	made.Store, made.Inbox = dispensary.NewSecret("oracle:"), dispensary.NewSecret("sqlite:")
	_, err = integration.Inspect(t.Context(), made, us)
	for _, name := range []string{"DISPENSARY_STORE", "DISPENSARY_INBOX"} {
		require.ErrorContains(t, err, name)
	}
	made.Store, made.SealKeys = dispensary.NewSecret("mysql:root@tcp(127.0.0.1:1)/test"), dispensary.NewSecret("none")
	_, err = integration.Inspect(t.Context(), made, us)
	require.ErrorContains(t, err, "DISPENSARY_SEAL_KEYS")
	_, err = integration.Inspect(t.Context(), made, dispensary.USProduction)
	require.ErrorIs(t, err, api.ErrArgument)
}

// A connection is private only if it cannot fall back to plain text.
func TestInspectChecksDatabaseTLS(t *testing.T) {
	t.Parallel()
	for address, private := range map[string]bool{
		"postgres://ehr@127.0.0.1/ehr":                             true,
		"postgres://ehr@localhost/ehr?sslmode=disable":             true,
		"postgres:///ehr?host=/run/postgresql":                     true,
		"postgres://ehr@192.0.2.1/ehr?sslmode=require":             true,
		"postgres://ehr@192.0.2.1/ehr?sslmode=verify-full":         true,
		"postgres://ehr@192.0.2.1/ehr?sslmode=disable":             false,
		"postgres://ehr@192.0.2.1/ehr?sslmode=prefer":              false,
		"postgres://ehr@192.0.2.1/ehr":                             false,
		"postgres://ehr@127.0.0.1,192.0.2.1/ehr?sslmode=disable":   false,
		"mysql:ehr@unix(/run/mysqld/mysqld.sock)/ehr":              true,
		"mysql:ehr@tcp(127.0.0.1:1)/ehr":                           true,
		"mysql:ehr@tcp(192.0.2.1:1)/ehr?tls=true&timeout=1ms":      true,
		"mysql:ehr@tcp(192.0.2.1:1)/ehr?tls=preferred&timeout=1ms": false,
		"mysql:ehr@tcp(192.0.2.1:1)/ehr?timeout=1ms":               false,
	} {
		t.Run(address, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			cancel() // so that no connection is opened
			seen, err := integration.Inspect(ctx, newFixture(t).kept(address, "memory:").config(t), us)
			require.NoError(t, err)
			assert.Equal(t, []integration.Database{{Setting: "DISPENSARY_STORE", Private: private}}, seen.Databases)
			require.NoError(t, seen.Close(t.Context()))
		})
	}
}

func TestInspectListsSecretFiles(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	file, key := filepath.Join(folder, "config.json"), filepath.Join(folder, "keys")
	require.NoError(t, os.WriteFile(key, []byte("2026:q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA="), 0o600))
	require.NoError(t, os.WriteFile(file, []byte(`{"environments":{"us/sandbox":{"base_url":"https://a.example/api","auth_url":"https://a.example","client_id":"a",
		"client_secret":"b","redirect_url":"https://ehr.example/callback"}},"store":"sqlite:`+folder+`/ehr.db","seal_keys_file":"`+key+`","state_keys":["0123456789abcdef0123456789abcdef"]}`), 0o600))
	c, err := integration.LoadFile(file)
	require.NoError(t, err)
	seen, err := integration.Inspect(t.Context(), c, us)
	require.NoError(t, err)
	assert.Equal(t, []string{file, key, filepath.Join(folder, "ehr.db")}, seen.SecretFiles)
	require.NoError(t, seen.Close(t.Context()))

	env := envFile(t, "DISPENSARY_STORE=memory:\nDISPENSARY_SEAL_KEYS_FILE="+key)
	c, err = integration.Load(environ(variables()), env)
	require.NoError(t, err)
	c.Store, c.Inbox = dispensary.NewSecret("memory:"), dispensary.NewSecret("memory:")
	seen, err = integration.Inspect(t.Context(), c, us)
	require.NoError(t, err)
	assert.Equal(t, []string{env}, seen.SecretFiles, "the environment overrides the name of the other file")
}

// BenchmarkOperations measures the response time of the operations pages with 3, 10,000 and
// 200,000 dead letters of 40 clinics and 3 reasons, all of the last hour.
func BenchmarkOperations(b *testing.B) {
	for name, inbox := range map[string]func(testing.TB) string{
		"SQLite":     func(t testing.TB) string { return "sqlite:" + file(t) },
		"PostgreSQL": postgrestest.Schema,
	} {
		for _, n := range []int{3, 10_000, 200_000} {
			b.Run(fmt.Sprint(name, "/", n), func(b *testing.B) {
				f := newFixture(b).kept("sqlite:"+file(b), inbox(b))
				i := f.deadLetters(b, n)
				server := httptest.NewServer(i.Operations)
				defer server.Close()
				for page, path := range map[string]string{
					"overview": "", "dead letters": "events?state=dead", "clinic": "events?clinic=cl_1",
					"reason": "events?reason=permanent:+reason_1", "dry run": "bulk?action=replay&reason=permanent:+reason_1",
					"exact ID": "find?id=1evt_1", "unknown ID": "find?id=unknown",
				} {
					b.Run(page, func(b *testing.B) { measure(b, server.URL+"/"+path) })
				}
			})
		}
	}
}

// deadLetters returns a running integration with n dead letters.
func (f *fixture) deadLetters(b *testing.B, n int) *integration.Integration {
	b.Helper()
	var handled sync.WaitGroup
	handled.Add(n)
	setup := f.setup(func(ctx context.Context, _ events.Event) error {
		return webhook.Permanent(webhook.WithReason("reason_"+webhook.HandlingFrom(ctx).Key.EventID[:1], io.EOF))
	})
	setup.DisableReconcile, setup.Work.Workers = true, 16
	setup.Work.Observer.AttemptEnd = func(context.Context, webhook.Attempt) { handled.Done() }
	i := f.open(b, setup)
	b.Cleanup(running(b, i))
	var senders sync.WaitGroup
	for of := range 50 {
		senders.Go(func() {
			for m := of; m < n; m += 50 {
				d := delivery(fmt.Sprint(m%3, "evt_", m))
				d.ClinicID, d.Body = fmt.Sprint("cl_", m%40), append(d.Body, bytes.Repeat([]byte(" "), 1800)...)
				_, err := i.Inbox.Accept(b.Context(), d)
				require.NoError(b, err)
			}
		})
	}
	senders.Wait()
	handled.Wait()
	return i
}

// measure reports the median time of responses.
func measure(b *testing.B, url string) {
	b.Helper()
	var took []time.Duration
	for b.Loop() {
		start := time.Now()
		response, err := http.Get(url)
		require.NoError(b, err)
		_, err = io.Copy(io.Discard, response.Body)
		require.NoError(b, err)
		require.NoError(b, response.Body.Close())
		require.Equal(b, http.StatusOK, response.StatusCode)
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms/median")
}
