package riverinbox

import (
	"errors"
	"regexp"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
)

// Defaults of a [Config].
const (
	// DefaultRetention is how long the keys of handled events are kept: a day
	// more than the 30 days for which the platform keeps events, so that nothing
	// it can still send or list is taken for new.
	DefaultRetention = 31 * 24 * time.Hour

	// DefaultLease is how long an event belongs to a worker that gives no sign
	// of life.
	DefaultLease = 30 * time.Second

	// DefaultQueue is the queue of River that the jobs stand in.
	DefaultQueue = "dispensary_webhooks"
)

// minRetention is what the platform can repeat.
const minRetention = 30 * 24 * time.Hour

// minLease leaves a worker the time to say that it is alive.
const minLease = time.Second

// Tables says where in the database everything is. The zero value leaves it to
// the search path of the connections.
type Tables struct {
	// Schema holds the tables of the inbox, whose names begin with
	// dispensary_inbox. River holds those of River. Both have to be there
	// before Migrate; letters, digits and underscores, 46 at most.
	Schema, River string
}

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

	// Queue is the queue of River that the jobs stand in; empty means
	// [DefaultQueue].
	Queue string

	// Lease is how long an event belongs to a worker that gives no sign of life;
	// 0 means [DefaultLease], less than a second is refused. Workers give one
	// every quarter of it, however long their handlers take.
	Lease time.Duration

	// Retention is how long the keys of handled and discarded events are kept
	// to recognise duplicates; 0 means [DefaultRetention], less than 30 days is
	// refused.
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
		return c, errors.New("riverinbox: Seal is missing: bodies hold patient data")
	}
	if c.Queue == "" {
		c.Queue = DefaultQueue
	}
	if c.Lease == 0 {
		c.Lease = DefaultLease
	}
	if c.Retention == 0 {
		c.Retention = DefaultRetention
	}
	if c.margin == 0 {
		c.margin = leaseMargin
	}
	switch {
	case c.Lease < minLease:
		return c, &api.ArgumentError{Field: "riverinbox.Config.Lease", Reason: "is shorter than a second"}
	case c.Retention < minRetention:
		return c, &api.ArgumentError{
			Field: "riverinbox.Config.Retention", Reason: "is shorter than the 30 days in which the platform can repeat an event",
		}
	}
	return c, c.Tables.validate(pool)
}

// schemaForm is what River takes for a name of a schema.
var schemaForm = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]{0,45}$`)

// validate checks what everything here begins with.
func (t Tables) validate(pool *pgxpool.Pool) error {
	if pool == nil {
		return errors.New("riverinbox: there is no pool")
	}
	for field, schema := range map[string]string{"Schema": t.Schema, "River": t.River} {
		if schema != "" && !schemaForm.MatchString(schema) {
			return &api.ArgumentError{
				Field: "riverinbox.Tables." + field, Reason: "must be letters, digits and underscores, 46 at most, not beginning with a digit",
			}
		}
	}
	return nil
}

// ErrSchema is returned by [New] where the tables are missing, or older than this
// package: call [Migrate].
var ErrSchema = errors.New("riverinbox: tables are missing or outdated: call Migrate")

// errClaimLost: the event was handed to someone else, because its worker gave no
// sign of life, or its handler took far longer than its time-out.
var errClaimLost = errors.New("riverinbox: the event was taken for abandoned and given to another worker")
