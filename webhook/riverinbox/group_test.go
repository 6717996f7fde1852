package riverinbox_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/internal/receivertest"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/riverinbox"
)

// startHeld opens an inbox that has handled some events and stores no outcome of them until
// release is called.
func startHeld(t *testing.T, d database, events int) (keys []string, made <-chan webhook.Attempt, release func()) {
	t.Helper()
	inbox, made := d.startKept(t, receivertest.Succeed, func(c *riverinbox.Config) { c.Work.Workers = events })
	waiting, release := inbox.HoldOutcomes()
	t.Cleanup(release)
	for range events {
		keys = append(keys, receivertest.Accept(t, inbox).Key.String())
	}
	require.Eventually(t, func() bool { return waiting() == events }, time.Minute, time.Millisecond)
	assert.Empty(t, made)
	return keys, made, release
}

// Outcomes that come while others are stored are stored in one transaction. Accepts do not
// wait for it.
func TestOutcomesShareATransaction(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	keys, made, release := startHeld(t, d, 20)
	release()
	for range keys {
		assert.Equal(t, webhook.ResultHandled, (<-made).Result)
	}
	assert.Equal(t, 20, count(t, d, "SELECT count(*) FROM dispensary_inbox_ledger"))
	assert.Equal(t, 1, count(t, d, "SELECT count(DISTINCT xmin::text) FROM dispensary_inbox_ledger"))
}

// Of outcomes that share a transaction one that the database refuses is stored later, and
// the others at once.
func TestARefusedOutcomeIsStoredAlone(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	keys, made, release := startHeld(t, d, 20)
	d.exec(t, "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'refused'; END $$")
	d.exec(t, fmt.Sprintf("CREATE TRIGGER refuse BEFORE DELETE ON dispensary_inbox FOR EACH ROW WHEN (OLD.key = '%s') EXECUTE FUNCTION refuse()", keys[7]))
	release()
	for range len(keys) - 1 {
		a := <-made
		assert.Equal(t, webhook.ResultHandled, a.Result)
		assert.NotEqual(t, keys[7], a.Key.String())
	}
	assert.Equal(t, 19, count(t, d, "SELECT count(*) FROM dispensary_inbox_ledger"))
	d.exec(t, "DROP TRIGGER refuse ON dispensary_inbox")
	assert.Equal(t, keys[7], (<-made).Key.String())
}
