package listen

import "context"

// Observer watches a [Listener]. Nil functions are not called; the listener waits for those
// that are, and calls one at a time.
type Observer struct {
	// PollEnd is called after each poll of a source.
	PollEnd func(context.Context, Poll)

	// ForwardEnd is called after each attempt to forward an event.
	ForwardEnd func(context.Context, Answer)
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

func (l *Listener) reportPoll(ctx context.Context, p Poll) {
	if l.config.Observer.PollEnd != nil {
		l.config.Observer.PollEnd(ctx, p)
	}
}

func (l *Listener) reportAnswer(ctx context.Context, a Answer) {
	if l.config.Observer.ForwardEnd != nil {
		l.config.Observer.ForwardEnd(ctx, a)
	}
}
