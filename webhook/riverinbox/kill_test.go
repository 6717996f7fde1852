package riverinbox_test

import (
	"context"
	"log"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/internal/testkit/receivertest"
	"github.com/dispensary-go/dispensary/internal/testkit/testsize"
	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/riverinbox"
)

// TestMain also runs the receivers of TestKill.
func TestMain(m *testing.M) {
	if folder := os.Getenv("RIVERINBOX_TEST_RECEIVER"); folder != "" {
		log.Fatal(receivertest.Receiver{
			Folder: folder, CrashOneIn: testsize.Of(100, 1000),
			Effect: func(ctx context.Context, _ string) error { return riverinbox.InTransaction(ctx, write) },
			Open: func(work webhook.Work, ring *seal.KeyRing) (webhook.Inbox, error) {
				pool, err := pgxpool.New(context.Background(), os.Getenv("RIVERINBOX_TEST_ADDRESS"))
				if err != nil {
					return nil, err
				}
				return riverinbox.Open(context.Background(), pool, riverinbox.Config{
					Work: work, Seal: ring, TakeOver: 3 * time.Second, Schema: pool.Config().ConnConfig.RuntimeParams["search_path"],
				})
			},
		}.Run())
	}
	os.Exit(m.Run())
}

// TestKill sends events of two integrations, with duplicates and out of order, to three
// receivers. One is killed repeatedly, some kill themselves between the accept and the
// response, and the database closes all connections twice.
func TestKill(t *testing.T) {
	testsize.SkipUnderRace(t)
	k := receivertest.NewKillTest(t, testsize.Of(100, 10_000), "in_1", "in_2")
	d := newDatabase(t)
	require.NoError(t, riverinbox.Migrate(t.Context(), d.pool(t), d.schema))
	d.exec(t, "CREATE TABLE effects (key text NOT NULL)")
	k.Receivers = 3
	address := d.address + "&pool_max_conns=16&application_name=" + d.schema
	k.Environ = []string{"RIVERINBOX_TEST_RECEIVER=" + k.Folder, "RIVERINBOX_TEST_ADDRESS=" + address}
	k.Ended = func() {
		if acked := k.Acked(); len(acked) > 0 {
			require.Len(t, known(t, d, acked...), len(acked), "events were acknowledged but are not stored")
		}
	}
	k.Cut = func() {
		d.exec(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1", d.schema)
	}
	k.Drained = func() bool {
		return count(t, d, "SELECT count(*) FROM river_job WHERE state NOT IN ('completed', 'cancelled')") == 0
	}
	k.Run(t)
	k.Ended()
	k.Check(t)
	stored := known(t, d, k.Keys...) // also the handled keys, because no event waits
	k.CheckTables(t, stored, stored, countTexts(t, d, "SELECT key FROM effects"))
	assert.NotContains(t, string(dump(t, d)), receivertest.Canary)
}

// countTexts counts the texts in the result of a query.
func countTexts(t testing.TB, d database, query string, args ...any) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for _, text := range texts(t, d, query, args...) {
		counts[text]++
	}
	return counts
}

// texts returns the texts in the result of a query.
func texts(t testing.TB, d database, query string, args ...any) []string {
	t.Helper()
	rows, err := d.reader(t).Query(t.Context(), query, args...)
	require.NoError(t, err)
	texts, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return texts
}

// count returns the number in the result of a query.
func count(t testing.TB, d database, query string, args ...any) (n int) {
	t.Helper()
	require.NoError(t, d.reader(t).QueryRow(t.Context(), query, args...).Scan(&n))
	return n
}

// write writes a row of the program.
func write(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, "INSERT INTO effects (key) VALUES ($1)", webhook.HandlingFrom(ctx).Key.String())
	return err
}
