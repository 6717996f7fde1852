package receivercheck

import (
	"net/http"
	"sync"
	"time"
)

const uniqueKey = "store the event under a unique key of event id and integration id (INSERT … ON CONFLICT DO NOTHING), and handle it if that was the first; one statement, not a look and then an insert."

var deliveryCases = []testCase{
	{
		name: "Delivery/Repeated",
		run: func(c *checker) {
			ev := c.newEvent()
			if !c.takes("an event", ev, c.deliver(ev.body())) {
				return
			}
			for range 2 {
				if !c.acknowledges("an event that was handled before", c.deliver(ev.body())) {
					return
				}
			}
			c.drain(ev)
		},
		consequence: "the platform sends an event again whose answer got lost: it is handled twice, or fails until the address is switched off.",
		fix:         "answer an event that you know as you answered it the first time, with the challenge. " + uniqueKey,
	},
	{
		name: "Delivery/Concurrent", run: (*checker).concurrent,
		consequence: "copies of an event that come at the same time, to two replicas for example, are handled twice.",
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
			c.accepts("either of them once more", c.deliver(ev.body()))
			c.accepts("either of them once more", c.deliver(other.body()))
			c.drain(ev)
		},
		consequence: "a clinic with two integrations gets the same event for each: what the second one's customer waits for never happens.",
		fix:         "make the integration id part of the key that duplicates are recognized by.",
	},
	{
		name: "Delivery/Reordered",
		run: func(c *checker) {
			older := c.newEvent().at(c.Timing.Now().Add(-time.Hour))
			c.takesEvent("an event", func(*request) {})
			if c.accepts("an event that is an hour older than the one before", c.deliver(older.body())) {
				c.expectedHandled[older.ID] = 1 // skipping what is outdated is an answer, too
			}
		},
		consequence: "events come in order without guarantee: the older one that comes late fails six times, or is lost.",
		fix:         "acknowledge events in whatever order they come; compare created_at when you handle them, or read the object from the API.",
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
					c.reportf("an event that could not be stored %s", c.describe(e))
					return
				}
			}
			repair()
			c.takes("an event that is sent again once it can be stored", ev, c.deliver(ev.body()))
		},
		consequence: "what was acknowledged is never sent again: every event that comes while the database is away is lost.",
		fix:         "answer 200 once the event is stored and committed, and 503 if that fails: the platform comes back.",
	},
	{
		name: "Delivery/SlowHandler", needs: needsBlockHandler,
		run: func(c *checker) {
			c.Hooks.BlockHandler(true)
			release := sync.OnceFunc(func() { c.Hooks.BlockHandler(false) })
			defer release()
			events := []event{c.newEvent(), c.newEvent()}
			for _, ev := range events {
				if !c.accepts("an event, while the handling of events takes its time,", c.deliver(ev.body())) {
					return
				}
			}
			c.accepts("the first event once more, while it is handled,", c.deliver(events[0].body()))
			release()
			for _, ev := range events {
				c.handled(ev, 1)
			}
			c.drain(events...)
		},
		consequence: "the platform stops waiting and sends the event again, which makes more of the slow work; after 24 hours it switches the address off.",
		fix:         "store the event, answer, and handle it outside of the request.",
	},
}

// duplicatesAtOnce is how many copies of an event come at the same time.
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
			c.reportf("one of %d copies of an event that came at once %s; 200, or 503 for those that lost the race, are fine", duplicatesAtOnce, c.describe(e))
			return
		}
	}
	if !taken {
		c.reportf("none of %d copies of an event that came at once was accepted; the last %s", duplicatesAtOnce, c.describe(answers[len(answers)-1]))
		return
	}
	c.handled(ev, 1)
	c.drain(ev)
}
