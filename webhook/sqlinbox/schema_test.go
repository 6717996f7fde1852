package sqlinbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/receivertest"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/sqlinbox"
)

func TestMigrateRunsAgain(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "program.db")
	var group sync.WaitGroup
	for range 4 {
		db := database(t, path)
		group.Go(func() {
			for range 3 {
				assert.NoError(t, sqlinbox.Migrate(context.Background(), db))
			}
		})
	}
	group.Wait()
	db := database(t, path)
	assert.Equal(t, map[string]int{"3": 1}, countTexts(t, db, "SELECT version FROM dispensary_inbox_schema"))
	for name := range countTexts(t, db, "SELECT name FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'") {
		assert.Regexp(t, "^dispensary_inbox", name)
	}
}

func TestMigrateDoesEverythingOrNothing(t *testing.T) {
	t.Parallel()
	db := database(t, filepath.Join(t.TempDir(), "program.db"))
	_, err := db.ExecContext(t.Context(), "CREATE TABLE dispensary_inbox_newest (mine TEXT)")
	require.NoError(t, err)
	require.Error(t, sqlinbox.Migrate(t.Context(), db))
	assert.Len(t, countTexts(t, db, "SELECT name FROM sqlite_master"), 1)
	_, err = db.ExecContext(t.Context(), "DROP TABLE dispensary_inbox_newest")
	require.NoError(t, err)
	require.NoError(t, sqlinbox.Migrate(t.Context(), db))
}

func TestNewWantsTheTablesOfItsVersion(t *testing.T) {
	t.Parallel()
	db := database(t, filepath.Join(t.TempDir(), "program.db"))
	_, err := sqlinbox.New(db, config(t, receivertest.Succeed))
	require.ErrorIs(t, err, sqlinbox.ErrSchema)
	require.NoError(t, sqlinbox.Migrate(t.Context(), db))
	inbox, err := sqlinbox.New(db, config(t, receivertest.Succeed))
	require.NoError(t, err)
	require.NoError(t, inbox.Close(t.Context()))
	require.NoError(t, db.PingContext(t.Context()), "the database is the program's")

	for version, want := range []error{2: sqlinbox.ErrSchema, 3: nil, 4: sqlinbox.ErrNewerSchema} {
		_, err = db.ExecContext(t.Context(), "UPDATE dispensary_inbox_schema SET version = ?", version)
		require.NoError(t, err)
		if want != nil {
			_, err = sqlinbox.New(db, config(t, receivertest.Succeed))
			require.ErrorIs(t, err, want)
		}
	}
	require.ErrorIs(t, sqlinbox.Migrate(t.Context(), db), sqlinbox.ErrNewerSchema)
}

func TestOpenIsForOne(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path, link := filepath.Join(folder, "inbox.db"), filepath.Join(folder, "other.db")
	inbox, err := sqlinbox.Open(path, config(t, receivertest.Succeed))
	require.NoError(t, err)
	require.NoError(t, os.Symlink(path, link))
	for _, name := range []string{path, link} {
		_, err = sqlinbox.Open(name, config(t, receivertest.Succeed))
		require.ErrorIs(t, err, sqlinbox.ErrInUse)
	}
	_, err = sqlinbox.New(database(t, path), config(t, receivertest.Succeed))
	require.ErrorIs(t, err, sqlinbox.ErrInUse)
	require.NoError(t, inbox.Close(t.Context()))
	inbox, err = sqlinbox.Open(link, config(t, receivertest.Succeed))
	require.NoError(t, err)
	require.NoError(t, inbox.Close(t.Context()))
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for name, change := range map[string]func(*sqlinbox.Config){
		"no seal":         func(c *sqlinbox.Config) { c.Seal = nil },
		"no handler":      func(c *sqlinbox.Config) { c.Work.Handle = nil },
		"short retention": func(c *sqlinbox.Config) { c.Retention = engine.DefaultRetention / 2 },
	} {
		c := config(t, receivertest.Succeed)
		change(&c)
		_, err := sqlinbox.Open(filepath.Join(folder, "inbox.db"), c)
		require.Error(t, err, name)
	}
	inbox, err := sqlinbox.Open(filepath.Join(folder, "inbox.db"), config(t, receivertest.Succeed))
	require.NoError(t, err, "what was refused holds no lock")
	require.NoError(t, inbox.Close(t.Context()))

	_, err = sqlinbox.Open(filepath.Join(folder, "no", "such", "folder.db"), config(t, receivertest.Succeed))
	require.ErrorIs(t, err, os.ErrNotExist)
	text := filepath.Join(folder, "text.db")
	require.NoError(t, os.WriteFile(text, []byte("this is no database, whatever its name says it may be"), 0o600))
	_, err = sqlinbox.Open(text, config(t, receivertest.Succeed))
	require.Error(t, err)

	memory, err := sql.Open("sqlite", ":memory:")
	require.NoError(t, err)
	defer func() { _ = memory.Close() }()
	_, err = sqlinbox.New(memory, config(t, receivertest.Succeed))
	require.ErrorContains(t, err, "in memory")
	memory.SetMaxOpenConns(1)
	_, err = sqlinbox.New(memory, config(t, receivertest.Succeed))
	require.ErrorContains(t, err, "one connection")
	require.False(t, errors.Is(err, sqlinbox.ErrInUse))
}

func TestSchemaIsWhatMigrateMakes(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	migrated, applied := database(t, filepath.Join(folder, "migrated.db")), database(t, filepath.Join(folder, "applied.db"))
	require.NoError(t, sqlinbox.Migrate(t.Context(), migrated))
	_, err := applied.ExecContext(t.Context(), sqlinbox.Schema())
	require.NoError(t, err)
	for _, query := range []string{
		"SELECT name || ' ' || coalesce(sql, '') FROM sqlite_master",
		"SELECT version FROM dispensary_inbox_schema",
	} {
		assert.Equal(t, countTexts(t, migrated, query), countTexts(t, applied, query))
	}
	inbox, err := sqlinbox.New(applied, config(t, receivertest.Succeed))
	require.NoError(t, err)
	require.NoError(t, inbox.Close(t.Context()))
	require.NoError(t, sqlinbox.Migrate(t.Context(), applied))
}

// Steps that were in use never change: there are files that were made by them.
func TestMigrationsStay(t *testing.T) {
	t.Parallel()
	assert.Equal(t, []string{"b368ffaaaec5470b", "7c938c2ee1b0a77e", "a1f0b7f8e4e68b3a"}, sqlinbox.MigrationDigests()[:3])
}

// oldRows are what an inbox of an earlier version left in its table, when it was
// killed: the state of a row, what was noted of it, and what has to become of it.
var oldRows = []struct {
	id, subject     string
	state, attempts int
	reason          string
	made            int // the number of its next attempt, if there is one
}{
	{id: "in_line", subject: "s_1", state: 0, made: 1},
	{id: "ready", subject: "s_1", state: 1, attempts: 2, reason: "failed", made: 3},
	{id: "alone", state: 1, made: 1},
	{id: "running", subject: "s_2", state: 2, attempts: 1, made: 2},
	{id: "behind", subject: "s_2", state: 0, made: 1},
	{id: "done", subject: "s_1", state: 3, attempts: 1},
	{id: "dead", subject: "s_1", state: 4, attempts: 3, reason: "permanent"},
}

// TestMigrateKeepsEverything opens what an earlier version has left.
func TestMigrateKeepsEverything(t *testing.T) {
	t.Parallel()
	for version := range 2 {
		t.Run(fmt.Sprint("version ", version+1), func(t *testing.T) {
			t.Parallel()
			path := newPath(t)
			var order []string
			c := config(t, func(ctx context.Context, e events.Event) error {
				order = append(order, fmt.Sprint(e.ID, " ", webhook.HandlingFrom(ctx).Attempt))
				return nil
			})
			c.Work.Workers, c.Work.Order = 1, webhook.ByObject
			made := receivertest.Observe(&c.Work)
			all := oldFile(t, path, c, version+1)

			inbox := open(t, path, c)
			var want []string
			for _, row := range oldRows {
				if row.made > 0 {
					want = append(want, fmt.Sprint(row.id, " ", row.made))
					assert.Equal(t, webhook.ResultHandled, (<-made).Result)
				}
			}
			require.NoError(t, inbox.Purge())
			assert.ElementsMatch(t, want, order)
			assert.Less(t, slices.Index(order, "ready 3"), slices.Index(order, "in_line 1"))
			assert.Less(t, slices.Index(order, "running 2"), slices.Index(order, "behind 1"))
			for _, d := range all {
				receipt, err := inbox.Accept(t.Context(), d)
				require.NoError(t, err)
				assert.True(t, receipt.Duplicate, d.Key)
			}
			for letter, err := range engine.All(t.Context(), inbox, engine.Filter{}) {
				require.NoError(t, err)
				letter, err = inbox.Open(t.Context(), letter.Key)
				require.NoError(t, err)
				assert.Equal(t, engine.StateDead, letter.State)
				assert.Equal(t, "dead", letter.Key.EventID)
				assert.Equal(t, "permanent", letter.Reason)
				assert.Equal(t, 3, letter.Attempts)
				assert.Equal(t, string(receivertest.Body(6, "in_1")), string(letter.Body))
				require.ErrorContains(t, letter.Err, "what went wrong")
			}
			stats, err := inbox.Stats(t.Context())
			require.NoError(t, err)
			assert.Equal(t, engine.Stats{Dead: 1}, stats)
			state, err := inbox.ClaimCheckpoint(t.Context(), "name", "next", time.Hour)
			require.NoError(t, err)
			if version > 0 {
				assert.Equal(t, "\x07", string(state))
			}
			var mode int
			require.NoError(t, database(t, path).QueryRowContext(t.Context(), "PRAGMA auto_vacuum").Scan(&mode))
			assert.Equal(t, 2, mode, "it can shrink")
		})
	}
}

// oldFile makes a file of an earlier version, with one event for each of oldRows.
func oldFile(t *testing.T, path string, c sqlinbox.Config, version int) (all []webhook.Delivery) {
	t.Helper()
	db := database(t, path)
	schema := sqlinbox.OldSchema(version)
	if version > 1 {
		schema += "INSERT INTO dispensary_inbox_checkpoints VALUES ('name', 'holder', 0, x'07');"
	}
	_, err := db.ExecContext(t.Context(), schema)
	require.NoError(t, err)
	for n, row := range oldRows {
		d := receivertest.NewDelivery()
		d.Key.EventID = row.id
		d.Body = []byte(fmt.Sprintf(`{"event":{"id":%q,"type":"patient.updated","integration_id":"in_1","data":{}}}`, row.id))
		if row.id == "dead" {
			d.Body = receivertest.Body(n, "in_1")
		}
		key, err := d.Key.MarshalText()
		require.NoError(t, err)
		body, err := engine.SealBody(c.Seal, d.Key, d.Body)
		require.NoError(t, err)
		var subject, letter any
		if row.subject != "" {
			subject = row.subject
		}
		if row.state == 3 {
			body = nil
		}
		if row.state == 4 {
			letter = engine.SealError(c.Seal, d.Key, errors.New("what went wrong"))
		}
		_, err = db.ExecContext(t.Context(), `INSERT INTO dispensary_inbox
			(key, type, clinic_id, received_at, order_at, subject, state, due_at, attempts, claim, body, reason, error)
			VALUES (?, 'patient.updated', 'cl_1', ?, ?, ?, ?, ?, ?, ?, ?, nullif(?, ''), ?)`,
			string(key), d.ReceivedAt.UnixMicro(), 100-n*row.state, subject, row.state, d.ReceivedAt.UnixMicro()-1000, row.attempts, row.attempts, body, row.reason, letter)
		require.NoError(t, err)
		all = append(all, d)
	}
	require.NoError(t, db.Close())
	return all
}
