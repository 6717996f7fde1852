package watermillinbox

import (
	"errors"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
)

// Defaults of a [Config].
const (
	// DefaultTopic is where the keys of what is to be handled are published.
	DefaultTopic = "dispensary_inbox"

	// DefaultRetention is how long the keys of handled events are kept: a day
	// more than the 30 days for which the platform keeps events, so that nothing
	// it can still send or list is taken for new.
	DefaultRetention = 31 * 24 * time.Hour

	// DefaultLease is how long an event stays with a process that has died.
	DefaultLease = 30 * time.Second

	// DefaultSweep is how often the store is searched.
	DefaultSweep = 30 * time.Second
)

const (
	// minRetention is what the platform can repeat.
	minRetention = 30 * 24 * time.Hour

	// minLease leaves time for three renewals.
	minLease = time.Second

	// defaultMargin is how much longer than its time-out a handler may take before
	// its event is given to another: one that has been told to stop needs a
	// moment. It is also how long the outcome may take to be noted.
	defaultMargin = 30 * time.Second
)

// Config is what an [Inbox] is made of. Work.Handle, Seal, Store, Publisher and
// Subscriber are required.
type Config struct {
	// Work says how events are handled.
	Work webhook.Work

	// Seal seals the bodies of events. [webhook.InsecurePlaintext] is the way to
	// have them readable.
	Seal seal.AEAD

	// Store keeps the events. All processes share it, and no other inbox does.
	Store Store

	// Publisher and Subscriber are the broker's. They stay the program's, which
	// closes them, or their connection, after the inbox: a subscription lasts as
	// long as its subscriber.
	Publisher  message.Publisher
	Subscriber message.Subscriber

	// Topic is Watermill's, and no other inbox's; empty means [DefaultTopic].
	Topic string

	// Subscriptions is how often Subscriber is subscribed to; 0 means once. A
	// subscriber that hands out one message of a subscription at a time, as that
	// of RabbitMQ does, needs some to keep its workers busy.
	Subscriptions int

	// Lease is how long the events that a dead process was handling stay
	// with it; 0 means [DefaultLease], less than a second is refused. A living
	// one renews its leases: a handler may take longer.
	Lease time.Duration

	// Sweep is how often the store is searched for events that the broker has
	// lost, and for those that are due again; 0 means [DefaultSweep].
	Sweep time.Duration

	// Retention is how long the keys of handled and discarded events are kept
	// to recognise duplicates; 0 means [DefaultRetention], less than 30 days is
	// refused.
	Retention time.Duration

	margin time.Duration // for tests
}

func (c Config) withDefaults() (Config, error) {
	orDefault(&c.Topic, DefaultTopic)
	orDefault(&c.Subscriptions, 1)
	orDefault(&c.Lease, DefaultLease)
	orDefault(&c.Sweep, DefaultSweep)
	orDefault(&c.Retention, DefaultRetention)
	orDefault(&c.margin, defaultMargin)
	switch {
	case c.Seal == nil:
		return c, errors.New("watermillinbox: Config.Seal is missing: bodies hold patient data")
	case c.Store == nil:
		return c, errors.New("watermillinbox: Config.Store is missing: a broker does not keep events")
	case c.Publisher == nil || c.Subscriber == nil:
		return c, errors.New("watermillinbox: Config.Publisher or Config.Subscriber is missing")
	case c.Subscriptions < 0 || c.Sweep < 0:
		return c, errors.New("watermillinbox: Config holds a negative number")
	case c.Lease < minLease:
		return c, errors.New("watermillinbox: Config.Lease is shorter than a second")
	case c.Retention < minRetention:
		return c, errors.New("watermillinbox: Config.Retention is shorter than the 30 days in which the platform can repeat an event")
	}
	return c, nil
}

func orDefault[T comparable](field *T, value T) {
	if *field == *new(T) {
		*field = value
	}
}

// errClaimLost: the event was given to someone else, because its handler took far
// longer than its time-out, or the store was away for longer than the lease.
var errClaimLost = errors.New("watermillinbox: the event was taken for abandoned and given to another worker")
