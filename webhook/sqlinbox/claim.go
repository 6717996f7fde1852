package sqlinbox

import (
	"context"
	"database/sql"
	"time"

	"github.com/dispensary-go/dispensary/webhook"
)

// claim is an event that was handed out. Its number is its fencing token: who
// comes back with an old one is too late.
type claim struct {
	seq, number int64
	subject     string
	task        webhook.Task
}

// longest is how long the dispatcher sleeps at most. It is woken for everything
// that happens in this process; the clock of the machine may be set, though.
const longest = time.Minute

// claim hands out up to n events that are due, for the time that a handler may
// take and a margin, and returns how long the next one has to wait. Attempts are
// counted now and not at their end, which may not come.
//
// It does not wait for the disk: should the machine lose its power, the claims
// are forgotten, together with the handlers.
func (i *Inbox) claim(n int) (claims []claim, next time.Duration, err error) {
	var rows []claimedRow
	var due sql.NullInt64
	err = i.writer.doLazily(context.Background(), func(t *tx) error {
		rows = nil
		now := i.now()
		if err := i.followClock(t, now); err != nil {
			return err
		}
		if err := i.reap(t, now); err != nil {
			return err
		}
		err := t.each(`UPDATE dispensary_inbox SET state = 4, due_at = ?, attempts = attempts + 1, claim = claim + 1
			WHERE seq IN (SELECT seq FROM dispensary_inbox WHERE state = 3 AND due_at <= ? ORDER BY due_at, seq LIMIT ?)
			RETURNING seq, claim, attempts, coalesce(subject, ''), coalesce(object, ''), coalesce(reason, ''),
			(SELECT at FROM dispensary_inbox_newest n WHERE n.object = dispensary_inbox.object), `+columns,
			[]any{i.lease(now), now, n}, func(r *sql.Rows) error {
				var row claimedRow
				err := r.Scan(append([]any{&row.seq, &row.number, &row.attempts, &row.subject, &row.object, &row.reason, &row.newest}, row.into()...)...)
				rows = append(rows, row)
				return err
			})
		if err != nil {
			return err
		}
		_, err = t.first(`SELECT min(due_at) FROM dispensary_inbox WHERE state IN (3, 4)`, nil, &due)
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	next = longest
	if due.Valid {
		next = min(longest, time.Duration(due.Int64-i.now()+1)*time.Microsecond)
	}
	return i.claimed(rows), next, nil
}

type claimedRow struct {
	storedRow
	seq, number     int64
	attempts        int
	subject, object string
	reason          string
	newest          sql.NullInt64
}

// claimed opens what was claimed; outside of the transaction, as it takes time.
func (i *Inbox) claimed(rows []claimedRow) []claim {
	claims := make([]claim, 0, len(rows))
	for _, row := range rows {
		c := claim{seq: row.seq, number: row.number, subject: row.subject}
		c.task = webhook.Task{Attempt: row.attempts, Object: webhook.Subject(row.object)}
		c.task.Delivery, c.task.Err = i.delivery(&row.storedRow)
		if row.newest.Valid {
			c.task.Newest = time.UnixMicro(row.newest.Int64).UTC()
		}
		if row.reason == webhook.ErrAbandoned.Error() && row.attempts > i.worker.Work().Retry.MaxAttempts {
			c.task.Attempt, c.task.Err = row.attempts-1, webhook.ErrAbandoned
		}
		claims = append(claims, c)
	}
	return claims
}

// reap takes back the events whose handlers should have ended by now. Those of a
// subject stand in line again like the others.
func (i *Inbox) reap(t *tx, now int64) error {
	var subjects []string
	err := t.each(`UPDATE dispensary_inbox SET state = iif(subject IS NULL, 3, 2), due_at = ?, reason = ?
		WHERE state = 4 AND due_at <= ? RETURNING coalesce(subject, '')`,
		[]any{i.now(), webhook.ErrAbandoned.Error(), now}, func(r *sql.Rows) error {
			var subject string
			defer func() { subjects = append(subjects, subject) }()
			return r.Scan(&subject)
		})
	if err != nil {
		return err
	}
	for _, subject := range subjects {
		if subject == "" {
			continue
		}
		if err := lead(t, subject); err != nil {
			return err
		}
	}
	return nil
}
