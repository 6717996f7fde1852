package publish_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/testkit/enginetest"
	"github.com/dispensary-go/dispensary/internal/testkit/sqltest"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/publish"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

var drivers = map[publish.Dialect]string{publish.SQLite: "sqlite", publish.PostgreSQL: "pgx", publish.MySQL: "mysql"}

// eachDatabase runs a test on SQLite, and on the servers whose addresses are set.
func eachDatabase(t *testing.T, test func(t *testing.T, db *sql.DB)) {
	t.Helper()
	for _, driver := range drivers {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			test(t, database(t, driver))
		})
	}
}

func database(t *testing.T, driver string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, sqltest.Database(t, driver))
	require.NoError(t, err)
	db.SetMaxOpenConns(4)
	t.Cleanup(func() { assert.NoError(t, db.Close()) })
	return db
}

func ledger(t *testing.T, db *sql.DB) *publish.Ledger {
	t.Helper()
	l, err := publish.NewLedger(t.Context(), db)
	require.NoError(t, err)
	return l
}

func keys(n int) (all []webhook.Key) {
	for i := range n {
		all = append(all, delivery(i, "in_1").Key)
	}
	return all
}

func TestLedgerKnowsWhatWasPublished(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, db *sql.DB) {
		broker := &recorder{}
		inbox := newInbox(t, broker, func(config *publish.Config) { config.Ledger = ledger(t, db) })
		all := keys(300)
		missing, err := inbox.Missing(t.Context(), append(all, all...))
		require.NoError(t, err)
		assert.Equal(t, all, missing)

		receipt, err := inbox.Accept(t.Context(), delivery(7, "in_1"))
		require.NoError(t, err)
		assert.Equal(t, webhook.Receipt{}, receipt)
		replica := newInbox(t, broker, func(config *publish.Config) { config.Ledger = ledger(t, db) })
		receipt, err = replica.Accept(t.Context(), delivery(7, "in_1"))
		require.NoError(t, err)
		assert.Equal(t, webhook.Receipt{Duplicate: true}, receipt)
		_, err = replica.Accept(t.Context(), delivery(7, "in_2"))
		require.NoError(t, err)
		assert.Equal(t, []string{"us/sandbox/evt_7/in_1", "us/sandbox/evt_7/in_2"}, broker.ids())

		missing, err = inbox.Missing(t.Context(), all)
		require.NoError(t, err)
		assert.Equal(t, append(keys(7), all[8:]...), missing)
		missing, err = inbox.Missing(t.Context(), nil)
		require.NoError(t, err)
		assert.Empty(t, missing)
	})
}

// What was not confirmed is not known.
func TestLedgerForgetsNothingAndInventsNothing(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, db *sql.DB) {
		broker := &recorder{err: assert.AnError}
		inbox := newInbox(t, broker, func(config *publish.Config) { config.Ledger = ledger(t, db) })
		_, err := inbox.Accept(t.Context(), delivery(1, "in_1"))
		require.ErrorIs(t, err, assert.AnError)
		missing, err := inbox.Missing(t.Context(), keys(2))
		require.NoError(t, err)
		assert.Equal(t, keys(2), missing)
	})
}

// Keys that are older than the retention go, a thousand at a time; others stay.
func TestLedgerForgetsAfterTheRetention(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, db *sql.DB) {
		inbox := newInbox(t, &recorder{}, func(config *publish.Config) { config.Ledger = ledger(t, db) })
		accept := func(from, to int) {
			for n := from; n < to; n++ {
				_, err := inbox.Accept(t.Context(), delivery(n, "in_1"))
				require.NoError(t, err)
			}
		}
		accept(0, 50)
		_, err := db.ExecContext(t.Context(), fmt.Sprintf("UPDATE dispensary_ledger SET noted_at = noted_at - %d", (32*24*time.Hour).Microseconds()))
		require.NoError(t, err)
		accept(50, 99)
		count := func() (n int) {
			require.NoError(t, db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM dispensary_ledger").Scan(&n))
			return n
		}
		assert.Equal(t, 99, count())
		accept(99, 100)
		assert.Equal(t, 50, count())
		missing, err := inbox.Missing(t.Context(), keys(100))
		require.NoError(t, err)
		assert.Equal(t, keys(50), missing)
	})
}

func TestNewLedgerCreatesTables(t *testing.T) {
	t.Parallel()
	for dialect, driver := range drivers {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			script, err := publish.LedgerSchema(dialect)
			require.NoError(t, err)
			sqltest.RunSchema(t, sqltest.Store{
				Driver: driver, Script: script,
				Create: func(ctx context.Context, db *sql.DB, _ string) error {
					_, err := publish.NewLedger(ctx, db)
					return err
				},
			})
		})
	}
}

func TestNewLedgerRejectsDatabase(t *testing.T) {
	t.Parallel()
	db := database(t, "sqlite")
	_, err := publish.NewLedger(t.Context(), nil)
	var wrong *api.ArgumentError
	require.ErrorAs(t, err, &wrong)
	assert.Equal(t, "publish.NewLedger db", wrong.Field)
	l := ledger(t, db)
	assert.Equal(t, "publish.Ledger", fmt.Sprintf("%v %+v", l, l)[:14])
	require.NoError(t, db.Close())
	_, err = publish.NewLedger(t.Context(), db)
	require.Error(t, err)
}

// TestCheckpoints holds the checkpoints of a ledger, and those of an inbox without
// one, to the contract of reconcile.Checkpoints.
func TestCheckpoints(t *testing.T) {
	t.Parallel()
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		inbox := newInbox(t, &recorder{})
		enginetest.Checkpoints(t, inbox, inbox)
	})
	eachDatabase(t, func(t *testing.T, db *sql.DB) { enginetest.Checkpoints(t, ledger(t, db), ledger(t, db)) })
}

func TestLedgerSchemaRefuses(t *testing.T) {
	t.Parallel()
	_, err := publish.LedgerSchema("oracle")
	require.ErrorIs(t, err, api.ErrArgument)
}

// missedFixture is a platform whose webhooks are not received.
type missedFixture struct {
	platform *dispensarytest.Server
	broker   *recorder
}

func newMissedFixture(t *testing.T) *missedFixture {
	t.Helper()
	clock := dispensarytest.FrozenClock(time.Date(2026, 3, 4, 15, 6, 7, 0, time.UTC))
	return &missedFixture{
		platform: dispensarytest.New(t, dispensarytest.WithClock(clock), dispensarytest.WithInMemory()),
		broker:   &recorder{},
	}
}

// happen has n orders placed, a minute apart, and returns the ids of the messages of
// their events.
func (f *missedFixture) happen(t *testing.T, n int) (ids []string) {
	t.Helper()
	for range n {
		_, event, err := f.platform.Orders.Place(f.platform.Patients.All()[0].ID, model.OrderCreate{})
		require.NoError(t, err)
		key := webhook.Key{Environment: f.platform.Site().Environment, EventID: event.ID, IntegrationID: "in_1"}
		ids = append(ids, key.String())
		f.platform.Clock.Advance(time.Minute)
	}
	return ids
}

// reconcile makes a run, and returns the ids of what it published.
func (f *missedFixture) reconcile(t *testing.T, inbox *publish.Inbox) (reconcile.Report, []string) {
	t.Helper()
	before := len(f.broker.ids())
	clinics, err := reconcile.New(reconcile.Config{
		Environment: f.platform.Site().Environment, Inbox: inbox, Now: f.platform.Clock.Now, List: reconcile.ClinicIDs("clinic"),
		Open: func(context.Context, string, api.Limiter) (reconcile.Clinic, error) {
			return reconcile.Clinic{Events: f.platform.Client(model.User{}).Events, Integrations: reconcile.Integrations("in_1")}, nil
		},
	})
	require.NoError(t, err)
	report, err := clinics.Run(t.Context(), "clinic")
	require.NoError(t, err)
	return report, f.broker.ids()[before:]
}

// With a ledger a reconciler publishes what was never seen, whichever replica runs it.
func TestReconcileWithLedger(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, db *sql.DB) {
		f := newMissedFixture(t)
		replica := func() *publish.Inbox {
			return newInbox(t, f.broker, func(config *publish.Config) { config.Ledger = ledger(t, db) })
		}
		ids := f.happen(t, 3)
		report, got := f.reconcile(t, replica())
		assert.Equal(t, ids, got)
		assert.Zero(t, report.Unchecked)
		assert.Equal(t, "recovered 3 of 3 missed; pages: 6, reads: 3", report.String())

		ids = f.happen(t, 2)
		report, got = f.reconcile(t, replica())
		assert.Equal(t, ids, got)
		assert.Equal(t, 2, report.Missed)
		report, got = f.reconcile(t, replica())
		assert.Empty(t, got)
		assert.Zero(t, report.Missed)
	})
}

// Without a ledger it publishes again what lies in the window, which is the overlap
// once it has a checkpoint, and says so.
func TestReconcileWithoutLedger(t *testing.T) {
	t.Parallel()
	f := newMissedFixture(t)
	inbox := newInbox(t, f.broker)
	early := f.happen(t, 2)
	report, got := f.reconcile(t, inbox)
	assert.Equal(t, early, got)
	assert.Equal(t, "recovered 2 of 2 missed; pages: 6, reads: 2; accepted before, perhaps: 2", report.String())

	f.platform.Clock.Advance(2 * time.Hour)
	late := f.happen(t, 2)
	report, got = f.reconcile(t, inbox)
	assert.Equal(t, append(early, late...), got, "from an hour before the newest event of the last run")
	assert.Equal(t, 4, report.Unchecked)
	_, got = f.reconcile(t, inbox)
	assert.Equal(t, late, got)

	_, got = f.reconcile(t, newInbox(t, f.broker))
	assert.Equal(t, append(early, late...), got, "after a start, everything")
}

func TestLedgerReplacesReadOnlyConnections(t *testing.T) {
	t.Parallel()
	for _, driver := range []string{"pgx", "mysql"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			db := database(t, driver)
			db.SetMaxIdleConns(4)
			l := ledger(t, db)
			inbox := newInbox(t, &recorder{}, func(config *publish.Config) { config.Ledger = l })
			sqltest.Demote(t, driver, db, 4)
			_, err := inbox.Accept(t.Context(), delivery(1, "in_1"))
			require.NoError(t, err)
			sqltest.Demote(t, driver, db, 4)
			require.NoError(t, l.CheckWrite(t.Context()))
			receipt, err := inbox.Accept(t.Context(), delivery(1, "in_1"))
			require.NoError(t, err)
			assert.True(t, receipt.Duplicate, "the key was noted")
		})
	}
}

func TestLedgerChecksWrites(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, db *sql.DB) {
		l := ledger(t, db)
		for range 2 {
			require.NoError(t, l.CheckWrite(t.Context()))
		}
		state, err := l.ClaimCheckpoint(t.Context(), "name", "holder", time.Minute)
		require.NoError(t, err)
		assert.Empty(t, state)
		ended, end := context.WithCancel(t.Context())
		end()
		require.Error(t, l.CheckWrite(ended))
	})
}
