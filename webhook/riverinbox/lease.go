package riverinbox

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// leases keeps the claims of this process alive, all of them at once, every
// quarter of a lease.
type leases struct {
	inbox *Inbox

	mu   sync.Mutex
	held map[string]*held // by token
}

// held is a claim whose handler runs.
type held struct {
	*claim
	until  time.Time // it certainly belongs to this process
	giveUp time.Time // it is not kept alive any longer
	cancel context.CancelFunc
}

func newLeases(i *Inbox) *leases { return &leases{inbox: i, held: map[string]*held{}} }

// hold keeps a claim alive until drop is called. The context that it returns ends when
// the claim cannot be kept, so that no two workers handle events of one ordering key,
// and when Close does not wait any longer.
func (l *leases) hold(ctx context.Context, c *claim) (_ context.Context, drop func()) {
	ctx, cancel := context.WithCancel(ctx)
	unlink := context.AfterFunc(l.inbox.life.Context(), cancel)
	h := &held{
		claim:  c,
		until:  c.since.Add(l.inbox.config.Lease),
		giveUp: time.Now().Add(l.inbox.worker.Work().HandlerTimeout + l.inbox.config.margin),
		cancel: cancel,
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held[c.token] = h
	return ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.held, c.token)
		unlink()
		cancel()
	}
}

// keep renews leases until no handler runs any more, also while Close waits for them.
func (l *leases) keep(stop <-chan struct{}) {
	ticker := time.NewTicker(l.inbox.config.Lease / 4)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			l.renew()
		case <-stop:
			return
		}
	}
}

// renew extends what is held, and ends the contexts of handlers whose claim is lost, or
// soon will be because the database does not answer.
func (l *leases) renew() {
	now := time.Now()
	asked := l.alive(now)
	if len(asked) == 0 {
		return
	}
	extended, err := l.extend(asked)
	if err != nil {
		l.inbox.worker.Work().Logger.LogAttrs(l.inbox.life.Context(), slog.LevelWarn, "webhook inbox cannot extend its claims", slog.String("reason", err.Error()))
	}
	lease := l.inbox.config.Lease
	l.mu.Lock()
	defer l.mu.Unlock()
	for token, h := range asked {
		switch ok, there := extended[token]; {
		case ok:
			h.until = now.Add(lease)
		case err == nil && !there, time.Until(h.until) < lease/4:
			h.cancel() // of a handler that has ended meanwhile, it does nothing
		}
	}
}

// alive returns the claims that are to be kept.
func (l *leases) alive(now time.Time) map[string]*held {
	l.mu.Lock()
	defer l.mu.Unlock()
	alive := make(map[string]*held, len(l.held))
	for token, h := range l.held {
		if now.Before(h.giveUp) {
			alive[token] = h
		}
	}
	return alive
}

// certain reports that no other worker can have ended a claim.
func (l *leases) certain(token string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.held[token]
	return h != nil && time.Now().Before(h.until)
}

// extend extends claims, and returns which of them are there, and of these whether they were
// extended: one that is locked, for a moment as a rule, is left to the next time.
func (l *leases) extend(claims map[string]*held) (extended map[string]bool, err error) {
	i := l.inbox
	ctx, cancel := context.WithTimeout(context.Background(), i.config.Lease/4)
	defer cancel()
	var subjects, tokens []string
	for token, h := range claims {
		subjects, tokens = append(subjects, h.subject), append(tokens, token)
	}
	rows, err := i.pool.Query(ctx, i.sql(`WITH held AS MATERIALIZED (
			SELECT c.subject, c.claim FROM {claims} c JOIN unnest($1::text[], $2::text[]) AS held (subject, claim) USING (subject, claim)
		), extended AS (
			UPDATE {claims} SET until = clock_timestamp() + $3::interval WHERE subject IN (
				SELECT c.subject FROM {claims} c JOIN held USING (subject, claim) FOR NO KEY UPDATE OF c SKIP LOCKED
			) RETURNING claim
		) SELECT claim, claim IN (SELECT claim FROM extended) FROM held`), subjects, tokens, i.config.Lease)
	if err != nil {
		return nil, err
	}
	extended = map[string]bool{}
	var token string
	var ok bool
	_, err = pgx.ForEachRow(rows, []any{&token, &ok}, func() error {
		extended[token] = ok
		return nil
	})
	return extended, err
}
