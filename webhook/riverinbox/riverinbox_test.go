package riverinbox_test

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/internal/receivertest"
	"github.com/dispensary-go/dispensary/internal/testkit/enginetest"
	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/riverinbox"
)

// TestInboxKeepsTheContract gives each engine connections of its own, as if it
// were in a process of its own. A crash is the end of the connections: nothing
// that the process does from then on has any effect.
func TestInboxKeepsTheContract(t *testing.T) {
	t.Parallel()
	enginetest.Run(t, func(t *testing.T) enginetest.Storage {
		d, keys := newDatabase(t), receivertest.KeyRing(t)
		var networks sync.Map
		open := func(work webhook.Work, aead seal.AEAD) (engine.Engine, error) {
			pool, network := d.connect(t)
			inbox, err := riverinbox.Open(t.Context(), pool, riverinbox.Config{
				Work: work, Seal: aead, Schema: d.schema, TakeOver: testTakeOver,
			}.Quick())
			if err != nil {
				return nil, err
			}
			networks.Store(inbox, network)
			return inbox, nil
		}
		return enginetest.Storage{
			Durable:    true,
			Shared:     true,
			Ordered:    true,
			Open:       func(work webhook.Work) (engine.Engine, error) { return open(work, keys) },
			OpenSealed: open,
			Crash: func(e engine.Engine) {
				n, _ := networks.Load(e)
				n.(*network).cut()
				d.exec(t, "DELETE FROM inbox_worker WHERE client = $1", e.(*riverinbox.Inbox).Name())
				ctx, cancel := context.WithCancel(context.Background())
				cancel()
				t.Cleanup(func() { _ = e.Close(ctx) })
			},
			Dump: func(t *testing.T) []byte { return dump(t, d) },
			InTransaction: func(ctx context.Context, then func() error) error {
				return riverinbox.InTransaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
					return errors.Join(write(ctx, tx), then())
				})
			},
			Rows: func(t *testing.T) []string {
				d.exec(t, "CREATE TABLE IF NOT EXISTS effects (key text NOT NULL)")
				return texts(t, d, "SELECT key FROM effects")
			},
		}
	})
}

// known counts how often an event is in the ledger: those of the keys, or if there is none, all
// of them.
func known(t *testing.T, d database, keys ...string) map[string]int {
	t.Helper()
	const digests = "(SELECT digest FROM inbox_ledger UNION ALL SELECT digest FROM inbox_undated) l"
	if len(keys) > 0 {
		return countTexts(t, d, "SELECT key FROM unnest($1::text[]) key JOIN "+digests+" ON digest = inbox_digest(key)", keys)
	}
	return countTexts(t, d, "SELECT digest::text FROM "+digests)
}

// dump returns every row of every table, those of River too.
func dump(t *testing.T, d database) []byte {
	t.Helper()
	tables := texts(t, d, "SELECT tablename FROM pg_tables WHERE schemaname = $1", d.schema)
	require.Contains(t, tables, "river_job")
	require.Contains(t, tables, "inbox_line")
	var all bytes.Buffer
	for _, table := range tables {
		for _, text := range texts(t, d, "SELECT t::text FROM "+table+" t") {
			all.WriteString(table + " " + text + "\n")
		}
	}
	return all.Bytes()
}
