package integration_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/doctor"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/integration"
	"github.com/dispensary-go/dispensary/internal/postgrestest"
)

// A whole integration that is healthy, which this process has open, passes from beside it:
// store, inbox and endpoint on each database. What cannot be seen from there is skipped.
func TestOpenDoctor(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		address func(*testing.T) string
		skipped []string
	}{
		"SQLite":     {func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "ehr.db") }, []string{"inbox sealed"}},
		"PostgreSQL": {postgrestest.Schema, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := test.address(t)
			f := newFixture(t).kept(address, address)
			i := f.open(t, f.setup(func(context.Context, events.Event) error { return nil }))
			f.connect(t, us, "us:17")
			ran := make(chan error, 1)
			go func() { ran <- i.Run(t.Context()) }()
			require.Eventually(t, func() bool { return !i.Reconcilers[us].Stats().Taken.IsZero() }, time.Minute, time.Millisecond)
			config, closed, err := integration.OpenDoctor(t.Context(), f.config(t), us)
			require.NoError(t, err)
			config.Webhook.URL, config.Operations = f.server.URL+"/webhooks/us-sandbox", []string{"patients.create"}
			report, err := doctor.Run(t.Context(), config)
			require.NoError(t, err)
			var skipped []string
			for _, row := range report.Rows {
				if row.Status == doctor.Skip {
					skipped = append(skipped, row.Check)
					continue
				}
				assert.Equal(t, doctor.Pass, row.Status, row)
			}
			assert.Equal(t, test.skipped, skipped)
			require.NoError(t, closed(t.Context()))
			stats, err := i.Inbox.Stats(t.Context())
			require.NoError(t, err, "the program's own inbox is open")
			assert.Zero(t, stats)
			require.NoError(t, i.Shutdown(t.Context()))
			require.NoError(t, <-ran)
		})
	}
}

func TestOpenDoctorFailures(t *testing.T) {
	t.Parallel()
	absent := "sqlite:" + filepath.Join(t.TempDir(), "absent.db")
	f := newFixture(t).kept(absent, absent)
	config, closed, err := integration.OpenDoctor(t.Context(), f.config(t), canada)
	require.NoError(t, err)
	require.ErrorIs(t, config.StoreErr, doctor.ErrSchema)
	require.ErrorIs(t, config.InboxErr, doctor.ErrSchema)
	require.NoError(t, closed(t.Context()))

	away := "postgres://postgres@127.0.0.1:1/test?connect_timeout=1"
	config, closed, err = integration.OpenDoctor(t.Context(), f.kept(away, away).config(t), canada)
	require.NoError(t, err)
	for _, err := range []error{config.StoreErr, config.InboxErr} {
		require.Error(t, err)
		require.NotErrorIs(t, err, doctor.ErrSchema)
	}
	report, err := doctor.Run(t.Context(), config)
	require.NoError(t, err)
	for _, row := range report.Rows {
		if row.Check == "store" || row.Check == "inbox" {
			assert.Equal(t, "the connection is refused", row.Seen)
		}
	}
	require.NoError(t, closed(t.Context()))

	made := f.kept("memory:", "memory:").config(t)
	config, _, err = integration.OpenDoctor(t.Context(), made, us)
	require.NoError(t, err)
	assert.Nil(t, config.Store, "which is in the memory of another process")
	made.Store, made.Inbox = dispensary.NewSecret("oracle:"), dispensary.NewSecret("sqlite:")
	_, _, err = integration.OpenDoctor(t.Context(), made, us)
	for _, name := range []string{"DISPENSARY_STORE", "DISPENSARY_INBOX"} {
		require.ErrorContains(t, err, name)
	}
	made.Store, made.SealKeys = dispensary.NewSecret("mysql:root@tcp(127.0.0.1:1)/test"), dispensary.NewSecret("none")
	_, _, err = integration.OpenDoctor(t.Context(), made, us)
	require.ErrorContains(t, err, "DISPENSARY_SEAL_KEYS")
	_, _, err = integration.OpenDoctor(t.Context(), made, dispensary.Environment{Region: dispensary.US, Stage: dispensary.Production})
	require.ErrorIs(t, err, dispensary.ErrUnknownSite)
}
