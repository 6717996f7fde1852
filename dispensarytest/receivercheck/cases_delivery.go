package receivercheck

import (
	"net/http"
	"sync"
	"time"
)

const uniqueKey = "store the event under a unique key of event ID and integration ID (INSERT … ON CONFLICT DO NOTHING), and handle it only if the statement inserted it; do not query first and insert then"

var deliveryCases = []testCase{
	{
		name: "Delivery/Repeated",
		run: func(c *checker) {
			ev := c.newEvent()
			if !c.takes("an event", ev, c.deliver(ev.body())) {
				return
			}
			for range 2 {
				if !c.acknowledges("an event that it has already handled", c.deliver(ev.body())) {
					return
				}
			}
			c.drain(ev)
		},
		consequence: "the platform repeats an event if the response was lost, and the event is handled twice or fails until the endpoint is disabled",
		fix:         "respond to a known event with the challenge, as for the first time; " + uniqueKey,
	},
	{
		name: "Delivery/Concurrent", run: (*checker).concurrent,
		consequence: "copies of an event that arrive at the same time, such as at two replicas, are handled twice",
		fix:         uniqueKey,
	},
	{
		name: "Delivery/Integrations",
		run: func(c *checker) {
			ev := c.newEvent()
			other := ev
			other.IntegrationID = c.samples.integrationIDs[1]
			if !c.takes("an event for one integration", ev, c.deliver(ev.body())) ||
				!c.accepts("the same event for another integration", c.deliver(other.body())) {
				return
			}
			c.handled(ev, 2)
			c.accepts("a repetition of one of them", c.deliver(ev.body()))
			c.accepts("a repetition of one of them", c.deliver(other.body()))
			c.drain(ev)
		},
		consequence: "a clinic with two integrations gets the same event for each of them, and the event of the second is never handled",
		fix:         "include the integration ID in the key that identifies duplicates",
	},
	{
		name: "Delivery/Reordered",
		run: func(c *checker) {
			older := c.newEvent().at(c.Timing.Now().Add(-time.Hour))
			c.takesEvent("an event", func(*request) {})
			if c.accepts("an event one hour older than the previous event", c.deliver(older.body())) {
				c.expectedHandled[older.ID] = 1 // the receiver may also skip the outdated event
			}
		},
		consequence: "events can arrive out of order, and a late older event fails six times or is lost",
		fix:         "acknowledge events in any order; compare created_at in the handler, or read the object from the API",
	},
	{
		name: "Delivery/StorageDown", needs: needsBreakStorage,
		run: func(c *checker) {
			ev := c.newEvent()
			c.Hooks.BreakStorage(true)
			repair := sync.OnceFunc(func() { c.Hooks.BreakStorage(false) })
			defer repair()
			for range 2 {
				if e := c.deliver(ev.body()); e.accepted() {
					c.reportf("accepts an event that it could not store: %s", c.describe(e))
					return
				}
			}
			repair()
			c.takes("a repeated event after the storage recovered", ev, c.deliver(ev.body()))
		},
		consequence: "the platform never repeats an acknowledged event, so every event that arrives during a database outage is lost",
		fix:         "respond with 200 after the event is stored and committed, and with 503 if that fails: the platform retries",
	},
	{
		name: "Delivery/SlowHandler", needs: needsBlockHandler,
		run: func(c *checker) {
			c.Hooks.BlockHandler(true)
			release := sync.OnceFunc(func() { c.Hooks.BlockHandler(false) })
			defer release()
			events := []event{c.newEvent(), c.newEvent()}
			for _, ev := range events {
				if !c.accepts("an event while the handler is blocked", c.deliver(ev.body())) {
					return
				}
			}
			c.accepts("a repetition of the first event while it is being handled", c.deliver(events[0].body()))
			release()
			for _, ev := range events {
				c.handled(ev, 1)
			}
			c.drain(events...)
		},
		consequence: "the platform stops waiting and repeats the event, which adds to the slow work, and it disables the endpoint after 24 hours",
		fix:         "store the event, respond, and handle it outside the request",
	},
}

// duplicatesAtOnce is the number of concurrent copies of an event.
const duplicatesAtOnce = 50

func (c *checker) concurrent() {
	ev := c.newEvent()
	body := ev.body()
	answers := make([]exchange, duplicatesAtOnce)
	start := make(chan struct{})
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() {
			<-start
			answers[i] = c.deliver(body)
		})
	}
	close(start)
	all.Wait()
	taken := false
	for _, e := range answers {
		switch {
		case e.accepted():
			taken = true
		case e.err != nil || e.status/100 != 5 && e.status != http.StatusConflict && e.status != http.StatusTooManyRequests:
			c.reportf("fails on one of %d concurrent copies of an event: %s; respond with 200, or with 503 to the copies that lost the race", duplicatesAtOnce, c.describe(e))
			return
		}
	}
	if !taken {
		c.reportf("accepts none of %d concurrent copies of an event: %s to the last one", duplicatesAtOnce, c.describe(answers[len(answers)-1]))
		return
	}
	c.handled(ev, 1)
	c.drain(ev)
}
