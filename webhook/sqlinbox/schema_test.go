package sqlinbox_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"modernc.org/sqlite"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/testkit/receivertest"
	"github.com/dispensary-go/dispensary/internal/testkit/sqltest"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/sqlinbox"
)

func TestMigrateCreatesSchema(t *testing.T) {
	t.Parallel()
	sqltest.RunSchema(t, sqltest.Store{
		Driver: "sqlite", Script: sqlinbox.Schema(),
		Create: func(ctx context.Context, db *sql.DB, _ string) error { return sqlinbox.Migrate(ctx, db) },
	})
}

func TestNewRequiresTables(t *testing.T) {
	t.Parallel()
	db := database(t, filepath.Join(t.TempDir(), "program.db"))
	_, err := sqlinbox.New(db, config(t, receivertest.Succeed))
	var missing *api.SchemaError
	require.ErrorAs(t, err, &missing)
	assert.Equal(t, api.SchemaError{Table: "dispensary_inbox_schema", Want: 1, Migrate: "sqlinbox.Migrate"}, *missing)
	require.NoError(t, sqlinbox.Migrate(t.Context(), db))
	inbox, err := sqlinbox.New(db, config(t, receivertest.Succeed))
	require.NoError(t, err)
	require.NoError(t, inbox.Close(t.Context()))
	require.NoError(t, db.PingContext(t.Context()), "Close leaves the program's database open")
}

func TestOpenRejectsSecondInbox(t *testing.T) {
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

func TestOpenRejectsInvalidArguments(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for name, change := range map[string]func(*sqlinbox.Config){
		"no seal":    func(c *sqlinbox.Config) { c.Seal = nil },
		"no handler": func(c *sqlinbox.Config) { c.Work.Handle = nil },
	} {
		c := config(t, receivertest.Succeed)
		change(&c)
		_, err := sqlinbox.Open(filepath.Join(folder, "inbox.db"), c)
		require.Error(t, err, name)
	}
	inbox, err := sqlinbox.Open(filepath.Join(folder, "inbox.db"), config(t, receivertest.Succeed))
	require.NoError(t, err, "a rejected Open keeps no lock")
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

// A driver or a program can override the settings that make a commit durable. An acknowledged event
// would then be lost in a power failure.
func TestNewRejectsDatabaseWithoutSync(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	require.NoError(t, sqlinbox.Migrate(t.Context(), database(t, path)))
	for _, setting := range []string{"PRAGMA synchronous = NORMAL", "PRAGMA journal_mode = DELETE"} {
		db := sql.OpenDB(overriding{path, setting})
		t.Cleanup(func() { _ = db.Close() })
		_, err := sqlinbox.New(db, config(t, receivertest.Succeed))
		require.ErrorContains(t, err, "database is not durable", setting)
	}
}

// overriding opens connections that replace each statement for the setting.
type overriding struct{ path, setting string }

func (o overriding) Driver() driver.Driver { return &sqlite.Driver{} }

func (o overriding) Connect(context.Context) (driver.Conn, error) {
	conn, err := o.Driver().Open("file:" + o.path)
	return overridingConn{conn, o.setting}, err
}

type overridingConn struct {
	driver.Conn
	setting string
}

func (c overridingConn) Prepare(query string) (driver.Stmt, error) {
	if name, _, _ := strings.Cut(c.setting, "="); strings.HasPrefix(query, name+"=") {
		query = c.setting
	}
	return c.Conn.Prepare(query)
}

func TestEventIDSearchesKeyIndex(t *testing.T) {
	t.Parallel()
	inbox := open(t, newPath(t), config(t, receivertest.Succeed))
	for name, plan := range map[string][]string{
		"Finished": inbox.FinishedPlan(t), "List": inbox.ListPlan(t, engine.Filter{EventID: "evt_1"}), "dead": inbox.ListPlan(t, engine.Filter{EventID: "evt_1", States: []engine.State{engine.StateDead}}),
	} {
		text := strings.Join(plan, "\n")
		assert.Contains(t, text, "(key>? AND key<?)", name)
		assert.NotContains(t, text, "SCAN dispensary_inbox", name)
		assert.NotContains(t, text, "(state=?", name)
	}
}

// TestCountReadsNoRows counts dead letters from the table of causes, or from an index in the
// order of their groups.
func TestCountReadsNoRows(t *testing.T) {
	t.Parallel()
	inbox := open(t, newPath(t), config(t, receivertest.Succeed))
	for step, filters := range map[string][]engine.Filter{
		"dispensary_inbox_causes":                    {{}, {ClinicID: "cl_1"}, {Type: "type"}, {Reason: "reason"}},
		"USING COVERING INDEX dispensary_inbox_dead": {{ID: "evt_1"}, {GivenUpFrom: time.Now()}, {ReceivedBefore: time.Now()}},
	} {
		for _, f := range filters {
			f.States = []engine.State{engine.StateDead}
			plan := inbox.CountPlan(t, f)
			assert.Contains(t, plan[1], step)
			assert.NotContains(t, strings.Join(plan, "\n"), "TEMP B-TREE")
		}
	}
}

func TestCountEndsAtLastEvent(t *testing.T) {
	t.Parallel()
	c := config(t, func(context.Context, events.Event) error { return webhook.Permanent(context.Canceled) })
	made, now := receivertest.Observe(&c.Work), time.Now()
	inbox := open(t, newPath(t), c.WithClock(func() time.Time { return now }, time.Minute))
	for range 3 {
		receivertest.Accept(t, inbox)
		<-made
	}
	for most, last := range []int64{3, 1, 2, 3} {
		counts, err := inbox.Count(t.Context(), engine.Filter{}, most)
		require.NoError(t, err)
		assert.Equal(t, engine.Position{At: now.UTC().Truncate(time.Microsecond), Seq: last}, counts.Until)
		assert.Equal(t, int(last), counts.Total)
	}
}

func TestReaderReadsOpenInbox(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	c := config(t, func(context.Context, events.Event) error { return webhook.Permanent(errors.New("canary")) })
	attempts := receivertest.Observe(&c.Work)
	inbox := open(t, path, c)
	for range 3 {
		receivertest.Accept(t, inbox)
		<-attempts
	}
	beside, err := sqlinbox.OpenReader(path)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		stats, err := beside.Stats(t.Context())
		return err == nil && stats.Dead == 3
	}, time.Minute, time.Millisecond)
	require.NoError(t, beside.Close(t.Context()))
	receivertest.Accept(t, inbox)
}

func TestReaderCreatesNoFile(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	_, err := sqlinbox.OpenReader(filepath.Join(folder, "none.db"))
	require.ErrorIs(t, err, os.ErrNotExist)
	empty, text := filepath.Join(folder, "empty.db"), filepath.Join(folder, "text.db")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	require.NoError(t, os.WriteFile(text, []byte("this is no database, whatever its name says it may be"), 0o600))
	_, err = sqlinbox.OpenReader(empty)
	var missing *api.SchemaError
	require.ErrorAs(t, err, &missing)
	_, err = sqlinbox.OpenReader(text)
	require.Error(t, err)
	files, err := os.ReadDir(folder)
	require.NoError(t, err)
	assert.Len(t, files, 2)
	info, err := os.Stat(empty)
	require.NoError(t, err)
	assert.Zero(t, info.Size())
}

// After Close, SQLite keeps no file open.
func TestReaderClosesFiles(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	require.NoError(t, open(t, path, config(t, receivertest.Succeed)).Close(context.Background()))
	beside, err := sqlinbox.OpenReader(path)
	require.NoError(t, err)
	_, err = beside.Stats(t.Context())
	require.NoError(t, err)
	require.NoError(t, beside.Close(t.Context()))
	assert.NoFileExists(t, path+"-wal")
	assert.NoFileExists(t, path+"-shm")
}
