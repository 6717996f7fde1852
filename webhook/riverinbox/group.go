package riverinbox

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/dispensary-go/dispensary/webhook/engine"
)

// groupCommit has the statements of many workers executed in transactions that they share:
// while one is committed, the next one fills up. So an inbox handles as many events a second
// on a slow disk as on a fast one, and leaves most connections of the pool to handlers.
//
// The database refuses a transaction as a whole. Then each worker has one of its own.
type groupCommit struct {
	inbox   *Inbox
	batcher *engine.Batcher[request]
	alone   sync.WaitGroup
}

// request is what one worker wants executed.
type request struct {
	order string           // all replicas lock rows in this order, so that none waits for another that waits for it
	queue func(*pgx.Batch) // adds the statements, perhaps once more
}

const (
	// groupSize is how many requests share a transaction: workers wait for the last of them.
	groupSize = 64

	// groupPatience is how long a transaction that is shared waits for a lock.
	groupPatience = 100 * time.Millisecond
)

func newGroupCommit(i *Inbox) *groupCommit {
	g := &groupCommit{inbox: i}
	g.batcher = engine.NewBatcher(engine.BatcherConfig[request]{
		Commit: g.commit,
		Limit:  func([]*engine.Write[request], time.Duration) int { return groupSize },
		Drain:  g.alone.Wait,
	})
	return g
}

// do executes a request and waits until that is committed. When ctx ends first it may be
// executed all the same, and what queue has said is done with results happens meanwhile.
func (g *groupCommit) do(ctx context.Context, r request) error { return g.batcher.Do(ctx, r) }

func (g *groupCommit) close() { g.batcher.Close() }

func (g *groupCommit) commit(batch []*engine.Write[request]) {
	slices.SortFunc(batch, func(a, b *engine.Write[request]) int { return cmp.Compare(a.Value.order, b.Value.order) })
	err := g.send(batch)
	var refused *pgconn.PgError
	if len(batch) == 1 || !errors.As(err, &refused) {
		answer(batch, err)
		return
	}
	for _, w := range engine.StillWanted(batch) {
		g.alone.Go(func() {
			w.Done(g.inbox.inTurn(context.Background(), func() error { return g.send([]*engine.Write[request]{w}) }))
		})
	}
}

// send executes requests in one transaction, which a batch is without saying so.
func (g *groupCommit) send(requests []*engine.Write[request]) error {
	ctx, cancel := context.WithTimeout(context.Background(), transactionTimeout)
	defer cancel()
	return sendTo(ctx, g.inbox.pool)(func(batch *pgx.Batch) {
		if len(requests) > 1 {
			batch.Queue("SELECT set_config('lock_timeout', $1, true)", strconv.FormatInt(groupPatience.Milliseconds(), 10))
		}
		for _, r := range requests {
			r.Value.queue(batch)
		}
	})
}
