package riverinbox_test

import (
	"context"
	"log"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/internal/receivertest"
	"github.com/dispensary-go/dispensary/internal/testsize"
	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/riverinbox"
)

// TestMain is also the receivers that the kill test kills.
func TestMain(m *testing.M) {
	if folder := os.Getenv("RIVERINBOX_TEST_RECEIVER"); folder != "" {
		log.Fatal(receivertest.Receiver{
			Folder: folder, CrashOneIn: testsize.Of(100, 1000), Effect: effect,
			Open: func(work webhook.Work, ring *seal.KeyRing) (webhook.Inbox, error) {
				pool, err := pgxpool.New(context.Background(), os.Getenv("RIVERINBOX_TEST_ADDRESS"))
				if err != nil {
					return nil, err
				}
				return riverinbox.Open(context.Background(), pool, riverinbox.Config{Work: work, Seal: ring, TakeOver: 3 * time.Second})
			},
		}.Run())
	}
	os.Exit(m.Run())
}

func effect(ctx context.Context, _ string) error { return riverinbox.InTransaction(ctx, write) }

// TestKill has events, repeated and out of order, come for two integrations to three
// receivers. One of them is killed again and again, some kill themselves between accept
// and answer, and the database ends all connections twice. Nothing is acknowledged before
// it is durable, nothing is lost, nothing is there twice, and what is written in the
// transaction of the inbox is written once.
func TestKill(t *testing.T) {
	testsize.SkipUnderRace(t)
	k := receivertest.NewKillTest(t, testsize.Of(100, 10_000), "in_1", "in_2")
	d := newDatabase(t)
	require.NoError(t, riverinbox.Migrate(t.Context(), d.pool(t), d.schema))
	d.exec(t, "CREATE TABLE effects (key text NOT NULL)")
	address, err := url.Parse(d.address)
	require.NoError(t, err)
	query := address.Query()
	query.Set("application_name", d.schema)
	query.Set("pool_max_conns", "16")
	address.RawQuery = strings.ReplaceAll(query.Encode(), "+", "%20") // as pgx reads a blank
	k.Receivers = 3
	k.Environ = []string{"RIVERINBOX_TEST_RECEIVER=" + k.Folder, "RIVERINBOX_TEST_ADDRESS=" + address.String()}
	k.Ended = func() {
		acked := k.Acked()
		require.Len(t, known(t, d, acked...), len(acked), "events were acknowledged and are not there")
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
	k.CheckTables(t,
		known(t, d, k.Keys...),
		known(t, d, k.Keys...), // as nothing waits
		countTexts(t, d, "SELECT key FROM effects"))
	assert.NotContains(t, string(dump(t, d)), receivertest.Canary)
}

// countTexts counts the texts that a query returns.
func countTexts(t *testing.T, d database, query string, args ...any) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for _, text := range texts(t, d, query, args...) {
		counts[text]++
	}
	return counts
}

// texts returns the texts that a query returns.
func texts(t *testing.T, d database, query string, args ...any) []string {
	t.Helper()
	rows, err := d.reader(t).Query(t.Context(), query, args...)
	require.NoError(t, err)
	texts, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return texts
}

// count returns the number that a query returns.
func count(t *testing.T, d database, query string, args ...any) (n int) {
	t.Helper()
	require.NoError(t, d.reader(t).QueryRow(t.Context(), query, args...).Scan(&n))
	return n
}

// write writes a row of the program.
func write(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, "INSERT INTO effects (key) VALUES ($1)", webhook.HandlingFrom(ctx).Key.String())
	return err
}
