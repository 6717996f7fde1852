package dispensaryotel

import (
	"context"
	"fmt"
	"time"

	"github.com/dispensary-go/dispensary/otel/internal/signal"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// WatchInbox shows how much an engine holds whenever metrics are collected, until
// stop is called, which should be before the engine is closed. The name is that of
// the inbox among others of the program.
//
// All processes that share an inbox show the same numbers: take their maximum, not
// their sum. The gauge to be alarmed by is dispensary.inbox.age. Where the engine
// does not answer nothing is shown, and OpenTelemetry's error handler gets the error.
func (t *Telemetry) WatchInbox(name string, inbox engine.Engine) (stop func() error, err error) {
	inboxName := signal.InboxName.Of(name)
	stop, err = t.meter.Watch(func(ctx context.Context, d signal.Display) error {
		stats, err := inbox.Stats(ctx)
		if err != nil {
			return fmt.Errorf("dispensaryotel: inbox %q: %w", name, err)
		}
		for state, n := range map[string]int{"waiting": stats.Waiting, "running": stats.Running, "dead": stats.Dead} {
			d.Show(t.inboxEvents, float64(n), inboxName, signal.InboxState.Of(state))
		}
		age := time.Duration(0)
		if !stats.Oldest.IsZero() {
			age = max(time.Since(stats.Oldest), 0)
		}
		d.Show(t.inboxAge, age.Seconds(), inboxName)
		return nil
	}, t.inboxEvents, t.inboxAge)
	if err != nil {
		return nil, fmt.Errorf("dispensaryotel: %w", err)
	}
	return stop, nil
}
