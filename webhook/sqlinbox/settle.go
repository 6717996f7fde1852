package sqlinbox

import (
	"errors"
	"time"

	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// settle notes the outcome of an attempt, and returns the event that the handler
// is given next, if there is one. It tries until that succeeds or the claim ends: a
// handler's work that is done should not be done again because the disk was full
// for a moment.
func (i *Inbox) settle(c *claim, a webhook.Attempt) (*claim, error) {
	var letter []byte
	if a.Result == webhook.ResultDead {
		var err error
		if letter, err = engine.SealError(i.config.Seal, a.Key, a.Err); err != nil {
			letter = nil // the reason will have to do
		}
	}
	end := time.Now().Add(i.config.margin)
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		var next *claim
		err := i.writer.doFor(c, func(t *tx) error {
			next = nil
			t.vacant = append(t.vacant, &next)
			return i.note(t, c, a, letter)
		})
		switch {
		case err == nil:
			return next, nil
		case errors.Is(err, errClaimLost), errors.Is(err, webhook.ErrInboxClosed), time.Now().After(end):
			return nil, err
		}
		select {
		case <-time.After(wait):
		case <-i.ctx.Done():
			end = time.Time{} // once more, and no further
		}
	}
}

// note writes the outcome down, if the event is still in the hands it was
// claimed by, and calls the next of its subject.
func (i *Inbox) note(t *tx, c *claim, a webhook.Attempt, letter []byte) error {
	now := i.now()
	changed, err := mark(t, c, a, letter, now)
	switch {
	case err != nil:
		return err
	case changed == 0:
		return errClaimLost
	}
	if a.Object != "" && a.Result == webhook.ResultHandled {
		err := t.exec(`INSERT INTO dispensary_inbox_newest (object, at, noted_at) VALUES (?, ?, ?)
			ON CONFLICT (object) DO UPDATE SET at = max(at, excluded.at), noted_at = excluded.noted_at`,
			string(a.Object), a.CreatedAt.UnixMicro(), now)
		if err != nil {
			return err
		}
	}
	if c.subject != "" {
		return callNext(t, c.subject)
	}
	t.ready = t.ready || a.Result != webhook.ResultHandled
	return nil
}

// mark changes the row of an event, and returns how many rows that were.
func mark(t *tx, c *claim, a webhook.Attempt, letter []byte, now int64) (int64, error) {
	living := stateReady
	if c.subject != "" {
		living = stateInLine // callNext calls the oldest, which it may not be
	}
	const settle, held = `UPDATE dispensary_inbox SET state = ?, due_at = ?, `, ` WHERE seq = ? AND claim = ? AND state = 4`
	switch a.Result {
	case webhook.ResultHandled, webhook.ResultSkipped:
		changed, err := t.changed(settle+`reason = NULL`+held, stateDone, now, c.seq, c.number)
		if err != nil || changed == 0 {
			return changed, err
		}
		return changed, drop(t, c.seq)
	case webhook.ResultDead:
		changed, err := t.changed(settle+`attempts = ?, reason = ?`+held, stateDead, now, a.Number, a.Reason(), c.seq, c.number)
		if err != nil || changed == 0 {
			return changed, err
		}
		return changed, t.exec("UPDATE dispensary_inbox_bodies SET error = ? WHERE seq = ?", letter, c.seq)
	case webhook.ResultReturned:
		return t.changed(settle+`attempts = attempts - 1`+held, living, now, c.seq, c.number)
	}
	due := now + a.RetryIn.Microseconds() + 1 // never before its time
	return t.changed(settle+`reason = ?`+held, living, due, a.Reason(), c.seq, c.number)
}

// drop deletes what was sealed of an event.
func drop(t *tx, seq int64) error {
	t.freed = true
	return t.exec("DELETE FROM dispensary_inbox_bodies WHERE seq = ?", seq)
}
