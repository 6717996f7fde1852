package sqlinbox

import (
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// recordWithRetry stores the outcome of an attempt, and returns the event that the
// handler is given next, if there is one.
func (i *Inbox) recordWithRetry(c *claim, a webhook.Attempt) (next *claim, err error) {
	sealed := i.sealedError(a)
	err = i.life.Record(i.worker.Work().Logger, i.config.margin, func() error {
		return i.writer.doFor(c, func(t *tx) error {
			next = nil
			t.vacant = append(t.vacant, &next)
			return i.recordOutcome(t, c, a, sealed)
		})
	})
	if err != nil {
		return nil, err
	}
	return next, nil
}

// sealedError returns what a dead letter keeps of its error; nil if it cannot be
// sealed: then the reason has to do.
func (i *Inbox) sealedError(a webhook.Attempt) []byte {
	if a.Result != webhook.ResultDead {
		return nil
	}
	sealed, err := engine.SealError(i.config.Seal, a.Key, a.Err)
	if err != nil {
		return nil
	}
	return sealed
}

// recordOutcome stores an outcome, if the event still belongs to the claim, and makes
// the next event of its ordering key ready.
func (i *Inbox) recordOutcome(t *tx, c *claim, a webhook.Attempt, sealedError []byte) error {
	now := i.now()
	changed, err := updateRow(t, c, a, sealedError, now)
	switch {
	case err != nil:
		return err
	case changed == 0:
		return engine.ErrClaimLost
	}
	if a.Object != "" && a.Result == webhook.ResultHandled {
		err := t.exec(`INSERT INTO dispensary_inbox_newest (object, at, noted_at) VALUES (?, ?, ?)
			ON CONFLICT (object) DO UPDATE SET at = max(at, excluded.at), noted_at = excluded.noted_at`,
			string(a.Object), a.CreatedAt.UnixMicro(), now)
		if err != nil {
			return err
		}
	}
	if c.orderingKey != "" {
		return promoteNext(t, c.orderingKey)
	}
	t.ready = t.ready || a.Result != webhook.ResultHandled
	return nil
}

// updateRow changes the row of an event, and returns how many rows that were.
func updateRow(t *tx, c *claim, a webhook.Attempt, sealedError []byte, now int64) (int64, error) {
	waiting := stateReady
	if c.orderingKey != "" {
		waiting = stateInLine // promoteNext finds the oldest, which it may not be
	}
	const update, held = `UPDATE dispensary_inbox SET state = ?, due_at = ?, `, ` WHERE seq = ? AND claim = ? AND state = 4`
	switch a.Result {
	case webhook.ResultHandled, webhook.ResultSkipped:
		changed, err := t.changed(update+`reason = NULL`+held, stateDone, now, c.seq, c.number)
		if err != nil || changed == 0 {
			return changed, err
		}
		return changed, drop(t, c.seq)
	case webhook.ResultDead:
		changed, err := t.changed(update+`attempts = ?, reason = ?`+held, stateDead, now, a.Number, a.Reason(), c.seq, c.number)
		if err != nil || changed == 0 {
			return changed, err
		}
		return changed, t.exec("UPDATE dispensary_inbox_bodies SET error = ? WHERE seq = ?", sealedError, c.seq)
	case webhook.ResultReturned:
		return t.changed(update+`attempts = attempts - 1`+held, waiting, now, c.seq, c.number)
	}
	due := now + a.RetryIn.Microseconds() + 1 // never before its time
	return t.changed(update+`reason = ?`+held, waiting, due, a.Reason(), c.seq, c.number)
}

// drop deletes what was sealed of an event.
func drop(t *tx, seq int64) error {
	t.freed = true
	return t.exec("DELETE FROM dispensary_inbox_bodies WHERE seq = ?", seq)
}
