package sqlinbox

// followClock has nothing wait for longer than it has to, where the clock of the
// machine was ahead when that was written down: what waits for nothing but its
// turn is due now, a retry after the longest wait, and a handler may take its time
// from now on. It looks when the inbox opens, and when the clock has been set back
// since it looked last.
func (i *Inbox) followClock(t *tx, now int64) error {
	back := now < i.lastNow
	i.lastNow = now
	if !back {
		return nil
	}
	longest := now + i.worker.Work().Retry.MaxBackOff.Microseconds() + 1
	return t.exec(`UPDATE dispensary_inbox SET due_at = CASE WHEN state = 4 THEN min(due_at, ?) WHEN attempts = 0 THEN ? ELSE min(due_at, ?) END
		WHERE state IN (2, 3, 4) AND due_at > ?`, i.lease(now), now, longest, now)
}

// lease returns when an event that is given to a handler at now is taken for
// abandoned.
func (i *Inbox) lease(now int64) int64 {
	return now + (i.worker.Work().HandlerTimeout + i.config.margin).Microseconds()
}
