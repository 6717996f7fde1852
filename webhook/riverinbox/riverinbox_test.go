package riverinbox_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/internal/testkit/enginetest"
	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/riverinbox"
)

// TestInboxPassesConformanceSuite gives each engine its own connections, like a process. A
// crash closes them, so the process has no further effect.
func TestInboxPassesConformanceSuite(t *testing.T) {
	t.Parallel()
	enginetest.Run(t, func(t *testing.T) enginetest.Storage {
		d := newDatabase(t)
		config := d.config(t, nil)
		d.exec(t, "CREATE TABLE effects (key text NOT NULL)")
		var networks sync.Map
		open := func(work webhook.Work, aead seal.AEAD) (engine.Engine, error) {
			pool, network := d.connect(t)
			c := config
			c.Work, c.Seal = work, aead
			inbox, err := riverinbox.Open(t.Context(), pool, c)
			if err != nil {
				return nil, err
			}
			networks.Store(inbox, network)
			return inbox, nil
		}
		return enginetest.Storage{
			Durable: true, Shared: true, Ordered: true,
			Open:       func(work webhook.Work) (engine.Engine, error) { return open(work, config.Seal) },
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
			Rows: func(t *testing.T) []string { return texts(t, d, "SELECT key FROM effects") },
		}
	})
}

// known counts the given keys in the ledger.
func known(t *testing.T, d database, keys ...string) map[string]int {
	t.Helper()
	return countTexts(t, d, `SELECT key FROM unnest($1::text[]) key JOIN inbox_ledger ON digest = inbox_key_digest(key)`, keys)
}

// dump returns all rows of all tables, including River's.
func dump(t *testing.T, d database) []byte {
	t.Helper()
	tables := texts(t, d, "SELECT tablename FROM pg_tables WHERE schemaname = $1", d.schema)
	require.Subset(t, tables, []string{"river_job", "inbox_order"})
	var all []string
	for _, table := range tables {
		all = append(all, texts(t, d, "SELECT t::text FROM "+table+" t")...)
	}
	return []byte(strings.Join(all, "\n"))
}
