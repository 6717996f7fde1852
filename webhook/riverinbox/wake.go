package riverinbox

import "time"

// wakeEvery is how often a replica announces events at most.
const wakeEvery = 20 * time.Millisecond

// wake has the other processes look for events.
func (i *Inbox) wake() {
	select {
	case i.woken <- struct{}{}:
	default: // they will
	}
}

// announce tells the clients of River that there are events. It does so in a transaction of its
// own, which does not wait for the disk: PostgreSQL lets transactions that announce something
// commit one at a time, on the whole server.
func (i *Inbox) announce() {
	for {
		select {
		case <-i.woken:
		case <-i.ended:
			return
		}
		_, err := i.exec(i.life.Context(), `SELECT set_config('synchronous_commit', 'off', true),
			pg_notify('{plain}.river_insert', '{"queue": "{queue}"}')`)
		i.warn("webhook inbox cannot announce events", err) // River looks for them by itself
		select {
		case <-time.After(wakeEvery):
		case <-i.ended:
			return
		}
	}
}
