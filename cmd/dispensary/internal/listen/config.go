package listen

import (
	"cmp"
	"slices"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
)

// Durations of a [Listener].
const (
	// DefaultInterval is the time between two polls.
	DefaultInterval = 5 * time.Second

	// overlap is the longest delay with which an event may appear in a list. Once a minute, a
	// poll reads the events of this time before the newest event again.
	overlap = 5 * time.Minute

	// The wait after a failed attempt, which doubles with each failure.
	firstBackOff = time.Second
	lastBackOff  = time.Minute
)

// Config configures a [Listener]. Sources, Forwarder, Cursor, PollEnd and ForwardEnd are
// required.
type Config struct {
	// Sources are the clinics with events to forward.
	Sources []Source

	// Forwarder posts the events.
	Forwarder *Forwarder

	// Cursor is the path of the file that stores the position of the listener. If it does not
	// exist, Run creates it in an existing directory, readable only by its owner. It contains ids
	// and times. A lock file beside it prevents a second listener.
	Cursor string

	// Since is how far in the past a listener without a cursor starts, by the clock of this
	// machine and rounded down to a whole second. 0 means that it starts at the time of [New].
	// The maximum is 30 days, and a longer time counts as 30 days.
	Since time.Duration

	// Types are the event types to forward. Nil means all. The listener reads only lists that
	// have these types, and treats other events as done.
	Types []events.Type

	// Interval is the time between the starts of two polls. 0 means [DefaultInterval].
	Interval time.Duration

	// PollEnd is called after each poll of a source, ForwardEnd after each attempt to forward an
	// event. The listener makes one call at a time and waits for it.
	PollEnd    func(Poll)
	ForwardEnd func(Response)

	// Now returns the time. Nil means [time.Now].
	Now func() time.Time
}

// Poll is the result of one poll of a source.
type Poll struct {
	// Source is [Source].Name.
	Source string

	// Pages is the number of list pages that were read.
	Pages int

	// Gap reports that the list was last read more than 30 days ago. The platform no longer has
	// all events since then, so some are lost. Gap is true for one poll only.
	Gap bool

	// Err is the error of a list that could not be read. The other lists were read, unless the
	// platform rejected the token, and the next poll retries.
	Err error
}

// Source is the origin of the events of one clinic.
type Source struct {
	// Name is the id of the clinic. It identifies the source in the listener and its cursor file.
	Name string

	// Environment is the environment of Events.
	Environment api.Environment

	// Events reads the platform's event lists. It is the Events field of a client.
	Events events.Service

	// Integrations are the ids of the clinic's integrations with webhooks to forward, as in
	// reconcile.Config. Event lists do not contain these ids, but [webhook.Key] does. Nil means
	// that webhooks have no integration id.
	Integrations []string
}

func (c Config) withDefaults() (Config, error) {
	if err := c.validate(); err != nil {
		return c, err
	}
	c.Sources = slices.Clone(c.Sources)
	for i := range c.Sources {
		if s := &c.Sources[i]; len(s.Integrations) == 0 {
			s.Integrations = []string{""}
		}
	}
	c.Interval = cmp.Or(c.Interval, DefaultInterval)
	c.Since = min(c.Since, retention)
	if c.Now == nil {
		c.Now = time.Now
	}
	return c, nil
}

func (c Config) validate() error {
	switch {
	case c.Since < 0:
		return badSetting("--since", "must not be negative")
	case c.Interval < 0:
		return badSetting("--interval", "must not be negative")
	}
	if err := checkTypes(c.Types); err != nil {
		return err
	}
	for _, s := range c.Sources {
		if err := c.Forwarder.mayHave(s.Environment); err != nil {
			return err
		}
	}
	return nil
}
