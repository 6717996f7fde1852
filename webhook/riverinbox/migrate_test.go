package riverinbox_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/receivertest"
	"github.com/dispensary-go/dispensary/internal/testsize"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/riverinbox"
)

// upgrade is a fleet whose replicas are replaced one by one: events are accepted and
// handled, each of them several times accepted, by old replicas, by both, and by new ones.
type upgrade struct {
	d        database
	config   riverinbox.Config
	old      former
	events   []webhook.Delivery
	clinics  int
	handled  map[string]*atomic.Int64 // by old and new
	byOld    atomic.Int64
	byNew    atomic.Int64
	mistakes atomic.Int64 // bodies that an old replica did not find
	accepts  atomic.Int64
	stopOld  chan struct{}
	workers  sync.WaitGroup
	inboxes  []*riverinbox.Inbox
}

func newUpgrade(t *testing.T, total int) *upgrade {
	u := &upgrade{d: newDatabase(t), clinics: 30, handled: map[string]*atomic.Int64{}, stopOld: make(chan struct{})}
	for n := range total {
		e := receivertest.NewDelivery()
		if n%5 > 0 {
			e.ClinicID = fmt.Sprint("cl_", n%u.clinics)
		} else {
			e.ClinicID = "" // and no line
		}
		e.CreatedAt = time.Now().Add(-time.Duration(rand.N(5*24)) * time.Hour)
		u.events = append(u.events, e)
		u.handled[e.Key.EventID] = new(atomic.Int64)
	}
	u.config = u.d.config(t, func(_ context.Context, e events.Event) error {
		u.handled[e.ID].Add(1)
		u.byNew.Add(1)
		return nil
	})
	// A former replica knows the line by its name, and River's jobs by theirs.
	u.config.Work.Order = func(d webhook.Delivery, _ events.Event) webhook.OrderingKey { return webhook.OrderingKey(d.ClinicID) }
	pool := u.d.pool(t)
	require.NoError(t, riverinbox.MigrateFirst(t.Context(), pool, u.d.tables()))
	require.NoError(t, riverinbox.MigrateRiver(t.Context(), pool, u.d.tables()))
	u.old = former{u.d.pool(t)}
	return u
}

// startOld starts workers of the release before.
func (u *upgrade) startOld(t *testing.T) {
	for worker := range 2 {
		u.workers.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-u.stopOld:
					return
				default:
				}
				event, token := u.events[rand.N(len(u.events))], fmt.Sprintf("OLD%d-%d", worker, n)
				clinic := event.ClinicID
				for found := true; found && rand.N(20) > 0; {
					var err error
					if found, err = u.old.work(context.Background(), clinic, event.Key.String(), token, u.handleOld); !assert.NoError(t, err) {
						return
					}
				}
				if clinic == "" {
					continue
				}
				if !assert.NoError(t, u.old.leave(context.Background(), clinic, token)) {
					return
				}
			}
		})
	}
}

func (u *upgrade) handleOld(text string, sealed []byte) error {
	var key webhook.Key
	if err := key.UnmarshalText([]byte(text)); err != nil {
		return err
	}
	if _, err := engine.OpenBody(u.config.Seal, key, sealed); err != nil {
		u.mistakes.Add(1)
		return err
	}
	u.handled[key.EventID].Add(1)
	u.byOld.Add(1)
	return nil
}

// accept has events accepted by old replicas, new ones, or both in turns, half of them
// for the second time by the other side.
func (u *upgrade) accept(t *testing.T, all []webhook.Delivery, old bool) {
	var group sync.WaitGroup
	for at := range 4 {
		group.Go(func() {
			for n := at; n < len(all); n += 4 {
				if old && (len(u.inboxes) == 0 || n%2 == 0) {
					assert.NoError(t, u.acceptOld(all[n]))
				} else {
					_, err := u.inboxes[n%len(u.inboxes)].Accept(context.Background(), all[n])
					assert.NoError(t, err)
				}
				u.accepts.Add(1)
			}
		})
	}
	group.Wait()
}

func (u *upgrade) acceptOld(e webhook.Delivery) (err error) {
	if e.Body, err = engine.SealBody(u.config.Seal, e.Key, e.Body); err != nil {
		return err
	}
	return pgx.BeginFunc(context.Background(), u.old.pool, func(tx pgx.Tx) error {
		fresh, err := u.old.insert(context.Background(), tx, e)
		if err != nil || !fresh {
			return err
		}
		_, err = tx.Exec(context.Background(), `INSERT INTO river_job (args, kind, max_attempts, priority, queue, state)
			VALUES (CASE WHEN $1 = '' THEN jsonb_build_object('event', $2::text) ELSE jsonb_build_object('subject', $1::text) END,
				'dispensary_webhook', 25, 1, 'dispensary_webhooks', 'available')`, e.ClinicID, e.Key.String())
		return err
	})
}

// TestReplicasAreReplacedOneByOne migrates a fleet under load, with a transaction held open
// for a while, and repeats what was handled by either side to the other.
func TestReplicasAreReplacedOneByOne(t *testing.T) {
	t.Parallel()
	testsize.SkipUnderRace(t)
	u := newUpgrade(t, testsize.Of(400, 20_000))
	part := len(u.events) / 4
	u.startOld(t)
	u.accept(t, u.events[:part], true)

	// A transaction of the program has an event of an old replica, and stays open.
	open1, err := u.d.pool(t).Begin(t.Context())
	require.NoError(t, err)
	_, err = u.old.insert(t.Context(), open1, receivertest.NewDelivery())
	require.NoError(t, err)
	migrated := make(chan error, 1)
	pool := u.d.pool(t)
	go func() { migrated <- riverinbox.Migrate(context.Background(), pool, u.d.tables()) }()
	u.accept(t, u.events[part:2*part], true)
	select {
	case err := <-migrated:
		require.Fail(t, "it cannot be done yet", "%v", err)
	default:
	}
	require.NoError(t, open1.Rollback(t.Context()))
	require.NoError(t, <-migrated)

	for range 2 {
		u.inboxes = append(u.inboxes, open(t, u.d.pool(t), u.config))
	}
	u.d.keepPartitions(t, u.inboxes[0])
	again := func() []webhook.Delivery {
		some := append(u.events[:0:0], u.events[:2*part]...)
		rand.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
		return some[:part]
	}
	u.accept(t, append(again(), u.events[2*part:3*part]...), true)
	u.d.exec(t, "UPDATE dispensary_inbox SET due_at = due_at - interval '2 minutes' WHERE state = 3")
	u.d.keepPartitions(t, u.inboxes[0])
	u.accept(t, again(), true)

	close(u.stopOld)
	u.workers.Wait()
	u.accept(t, append(again(), u.events[3*part:]...), false)
	require.Eventually(t, func() bool {
		return count(t, u.d, "SELECT count(*) FROM dispensary_inbox WHERE state < 3") == 0
	}, 5*time.Minute, 50*time.Millisecond)
	u.d.exec(t, "UPDATE dispensary_inbox SET due_at = due_at - interval '2 minutes' WHERE state = 3")
	u.d.keepPartitions(t, u.inboxes[0])
	lost, doubled := 0, 0
	for _, n := range u.handled {
		switch n.Load() {
		case 0:
			lost++
		case 1:
		default:
			doubled++
		}
	}
	assert.Zero(t, lost, "lost")
	assert.Zero(t, doubled, "handled twice")
	assert.Zero(t, u.mistakes.Load(), "an old replica did not find a body")
	assert.Positive(t, u.byOld.Load())
	assert.Positive(t, u.byNew.Load())
	assert.Zero(t, count(t, u.d, "SELECT count(*) FROM dispensary_inbox"))
	assert.Equal(t, len(u.events), count(t, u.d, "SELECT count(*) FROM dispensary_inbox_ledger"))
	t.Logf("%d events accepted %d times; %d handled by old replicas, %d by new ones; %d lost, %d doubled",
		len(u.events), u.accepts.Load(), u.byOld.Load(), u.byNew.Load(), lost, doubled)
}
