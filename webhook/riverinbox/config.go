package riverinbox

import (
	"cmp"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// Names and defaults.
const (
	// DefaultLease is how long an event belongs to a worker that gives no sign
	// of life.
	DefaultLease = 30 * time.Second

	// Queue is the queue of River that the jobs stand in.
	Queue = "dispensary_webhooks"
)

// minLease leaves a worker the time to say that it is alive.
const minLease = time.Second

// Config is what an [Inbox] is made of. Work.Handle and Seal are required. All
// replicas should have the same, Work.Order above all.
type Config struct {
	// Work says how events are handled. With a River client of the program's
	// own, Work.Workers is how many workers [Inbox.AddTo] gives the queue, if the
	// program does not say.
	Work webhook.Work

	// Seal seals the bodies of events; all replicas need the same keys.
	// [seal.InsecurePlaintext] is the way to have them readable.
	Seal seal.AEAD

	// Tables says where the tables are.
	Tables Tables

	// Lease is how long an event belongs to a worker that gives no sign of life;
	// 0 means [DefaultLease], less than a second is refused. Workers give one
	// every quarter of it, however long their handlers take.
	Lease time.Duration

	// Retention is how long the keys of handled and discarded events are kept to
	// recognise duplicates, from the end of the day on which an event was created, in
	// UTC; 0 means [engine.DefaultRetention], less than 30 days is refused. All replicas
	// should have the same.
	Retention time.Duration

	// River changes the configuration of the client that [Open] makes, before it
	// is made: workers, queues and periodic jobs of the program's own, PollOnly
	// behind PgBouncer. Nil leaves it as it is.
	River func(*river.Config)

	// margin is for tests.
	margin time.Duration
}

func (c Config) withDefaults(pool *pgxpool.Pool) (Config, error) {
	if c.Seal == nil {
		return c, &api.ArgumentError{Field: "riverinbox.Config.Seal", Reason: "is missing: bodies hold patient data"}
	}
	c.Lease = cmp.Or(c.Lease, DefaultLease)
	c.margin = cmp.Or(c.margin, engine.LeaseMargin)
	if c.Lease < minLease {
		return c, &api.ArgumentError{Field: "riverinbox.Config.Lease", Reason: "is shorter than a second"}
	}
	retention, err := engine.Retention(c.Retention, "riverinbox.Config.Retention")
	if err != nil {
		return c, err
	}
	c.Retention = retention
	return c, validate(pool, c.Tables)
}
