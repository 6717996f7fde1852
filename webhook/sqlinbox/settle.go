package sqlinbox

import (
	"context"
	"errors"
	"time"

	"github.com/dispensary-go/dispensary/webhook"
)

// settle notes the outcome of an attempt. It tries until that succeeds or the
// claim ends: a handler's work that is done should not be done again because the
// disk was full for a moment.
//
// In the same transaction it claims the next event for the same handler, so that
// a backlog costs one sync for each event and not two.
func (i *Inbox) settle(c claim, a webhook.Attempt) (next []claim, err error) {
	var letter []byte
	if a.Result == webhook.ResultDead {
		var err error
		if letter, err = webhook.SealError(i.config.Seal, a.Key, a.Err); err != nil {
			letter = nil // the reason will have to do
		}
	}
	end := time.Now().Add(i.config.margin)
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		var rows []claimedRow
		err := i.writer.do(context.Background(), func(t *tx) (err error) {
			rows = nil
			if err := i.note(t, c, a, letter); err != nil || i.stopped() {
				return err
			}
			rows, err = i.claimRows(t, 1)
			return err
		})
		switch {
		case err == nil:
			return i.claimed(rows), nil
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
func (i *Inbox) note(t *tx, c claim, a webhook.Attempt, letter []byte) (err error) {
	now := i.now()
	due := now
	living := stateReady
	if c.subject != "" {
		living = stateInLine // lead calls the oldest, which it may not be
	}
	var changed int64
	switch a.Result {
	case webhook.ResultHandled, webhook.ResultSkipped:
		changed, err = t.changed(`UPDATE dispensary_inbox SET state = ?, due_at = ?, body = NULL, reason = NULL
			WHERE seq = ? AND claim = ? AND state = 2`, stateDone, due, c.seq, c.number)
	case webhook.ResultDead:
		changed, err = t.changed(`UPDATE dispensary_inbox SET state = ?, due_at = ?, attempts = ?, reason = ?, error = ?
			WHERE seq = ? AND claim = ? AND state = 2`, stateDead, due, a.Number, a.Reason(), letter, c.seq, c.number)
	case webhook.ResultReturned:
		changed, err = t.changed(`UPDATE dispensary_inbox SET state = ?, due_at = ?, attempts = attempts - 1
			WHERE seq = ? AND claim = ? AND state = 2`, living, due, c.seq, c.number)
	default:
		due += a.RetryIn.Microseconds() + 1 // never before its time
		changed, err = t.changed(`UPDATE dispensary_inbox SET state = ?, due_at = ?, reason = ?
			WHERE seq = ? AND claim = ? AND state = 2`, living, due, a.Reason(), c.seq, c.number)
	}
	if err == nil && changed == 0 {
		err = errClaimLost
	}
	if err == nil && a.Object != "" && a.Result == webhook.ResultHandled {
		err = t.exec(`INSERT INTO dispensary_inbox_newest (object, at, noted_at) VALUES (?, ?, ?)
			ON CONFLICT (object) DO UPDATE SET at = max(at, excluded.at), noted_at = excluded.noted_at`,
			string(a.Object), a.CreatedAt.UnixMicro(), now)
	}
	switch {
	case err != nil:
		return err
	case c.subject != "":
		return lead(t, c.subject)
	case a.Result != webhook.ResultHandled:
		t.ready = true
	}
	return nil
}
