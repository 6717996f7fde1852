package listen

import (
	"cmp"
	"slices"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
)

// Times of a [Listener].
const (
	// DefaultInterval is how often the platform is asked for new events.
	DefaultInterval = 5 * time.Second

	// overlap is how late an event may appear in the lists: events before the newest one are
	// listed again once a minute.
	overlap = 5 * time.Minute

	// The wait after a failed attempt doubles with every further one.
	firstBackOff = time.Second
	lastBackOff  = time.Minute
)

// Config is what a [Listener] is made of. Sources, Forwarder and Cursor are required;
// everything else has a default.
type Config struct {
	// Sources are the clinics whose events are forwarded.
	Sources []Source

	// Forwarder posts the events.
	Forwarder *Forwarder

	// Cursor is the path of the file that says how far the listener came. It is made,
	// readable for its owner only, where it is not there; its folder has to be. It holds
	// ids and times. A lock on a file beside it keeps a second listener out.
	Cursor string

	// Since is how far back a listener begins that has no cursor yet, by the clock of
	// this machine and from a whole second on; 0 means with what happens after [New], and
	// more than 30 days is no more than that.
	Since time.Duration

	// Types are the types of event that are forwarded; nil means all. Only the lists that
	// have them are read, and what is left out of these counts as done.
	Types []events.Type

	// Interval is the time between the beginnings of two polls; 0 means [DefaultInterval].
	Interval time.Duration

	// PollEnd is called after each poll of a source, and ForwardEnd after each attempt to
	// forward an event. The listener waits for them, and calls one at a time.
	PollEnd    func(Poll)
	ForwardEnd func(Answer)

	// Now is the clock; nil means [time.Now].
	Now func() time.Time
}

// Poll is the result of asking for the new events of one source.
type Poll struct {
	// Source is [Source].Name.
	Source string

	// Pages is how many pages of lists were read.
	Pages int

	// Gap reports, once, that the list was last read longer ago than the platform keeps
	// events: what happened since, and is older than 30 days, is lost.
	Gap bool

	// Err is why a list could not be read. The next poll tries again, and other lists are
	// read all the same.
	Err error
}

// Source is where the events of one clinic come from.
type Source struct {
	// Name is the id of the clinic. It tells the sources of a listener apart, also in its
	// cursor.
	Name string

	// Environment is the one that Events belongs to.
	Environment api.Environment

	// Events reads the platform's record: the Events field of a client.
	Events events.Service

	// Integrations are the ids of the clinic's integrations whose webhooks are to be
	// forwarded, as in reconcile.Config: event lists do not say them, and they are
	// part of the key. Nil means that webhooks name none.
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
		return rejected("--since", "is negative")
	case c.Interval < 0:
		return rejected("--interval", "is negative")
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
