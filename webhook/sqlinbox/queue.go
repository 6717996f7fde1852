package sqlinbox

// headQuery finds the one event of an ordering key that is ready or being handled. It
// goes through the events of the key from the oldest: only what came late is older.
const headQuery = `SELECT seq, state, order_at FROM dispensary_inbox
	WHERE subject = ? AND state < 5 AND state > 2 ORDER BY order_at, seq LIMIT 1`

// promoteHead makes the oldest event of an ordering key the one that is ready, unless
// one of them is being handled.
func promoteHead(t *tx, orderingKey string) error {
	var head, orderAt, oldest int64
	var state int
	hasHead, err := t.first(headQuery, []any{orderingKey}, &head, &state, &orderAt)
	if err != nil || hasHead && state == stateRunning {
		return err
	}
	t.ready = true
	found, err := t.first(`SELECT seq FROM dispensary_inbox
		WHERE subject = ? AND state < 5 ORDER BY order_at, seq LIMIT 1`, []any{orderingKey}, &oldest)
	if err != nil || !found || hasHead && head == oldest {
		return err
	}
	if hasHead {
		if err := t.exec("UPDATE dispensary_inbox SET state = 2 WHERE seq = ?", head); err != nil {
			return err
		}
	}
	return t.exec("UPDATE dispensary_inbox SET state = 3 WHERE seq = ?", oldest)
}

// promoteNext makes the oldest event of an ordering key the one that is ready, where
// none is, or is being handled.
func promoteNext(t *tx, orderingKey string) error {
	changed, err := t.changed(`UPDATE dispensary_inbox SET state = 3 WHERE seq = (SELECT seq FROM dispensary_inbox
		WHERE subject = ? AND state < 5 ORDER BY order_at, seq LIMIT 1)`, orderingKey)
	t.ready = t.ready || changed > 0
	return err
}
