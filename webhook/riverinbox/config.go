package riverinbox

import (
	"cmp"
	"fmt"
	"regexp"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
)

// DefaultTakeOver is how long a process may give no sign of life before others handle its
// events.
const DefaultTakeOver = 30 * time.Second

// minTakeOver leaves a process the time to give signs of life.
const minTakeOver = time.Second

// Config is what an [Inbox] is made of. Work.Handle and Seal are required. All replicas should
// have the same.
type Config struct {
	// Work says how events are handled.
	Work webhook.Work

	// Seal seals the bodies of events. [seal.InsecurePlaintext] is the way to have them
	// readable.
	Seal seal.AEAD

	// Schema is the PostgreSQL schema of the tables, those of River among them. No other client
	// of River may use it. Empty means the first schema of the search path. Letters, digits and
	// underscores, 46 at most.
	Schema string

	// TakeOver is how long a process may give no sign of life before others handle its events; 0
	// means [DefaultTakeOver], less than a second is refused. A process that cannot reach the
	// database ends the contexts of its handlers after two thirds of it.
	TakeOver time.Duration

	// PollOnly is for PgBouncer in transaction mode: River looks for events every quarter of a
	// second, and nothing listens.
	PollOnly bool

	// sweepEvery is for tests.
	sweepEvery time.Duration
}

func (c Config) withDefaults(pool *pgxpool.Pool) (Config, error) {
	switch {
	case pool == nil:
		return c, &api.ArgumentError{Field: "pool", Reason: "is nil"}
	case c.Seal == nil:
		return c, &api.ArgumentError{Field: "riverinbox.Config.Seal", Reason: "is missing: bodies hold patient data"}
	}
	c.TakeOver = cmp.Or(c.TakeOver, DefaultTakeOver)
	if c.TakeOver < minTakeOver {
		return c, &api.ArgumentError{Field: "riverinbox.Config.TakeOver", Reason: fmt.Sprintf("is shorter than %s", minTakeOver)}
	}
	c.sweepEvery = cmp.Or(c.sweepEvery, sweepEvery)
	return c, nil
}

// schemaForm is what River takes for a name of a schema.
var schemaForm = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]{0,45}$`)

func validateSchema(name string) error {
	if !schemaForm.MatchString(name) {
		return &api.ArgumentError{
			Field: "riverinbox.Config.Schema", Reason: "must be letters, digits and underscores, 46 at most, not beginning with a digit",
		}
	}
	return nil
}
