package dispensarytest

import (
	"net/http"
	"sync"
	"time"
)

// duplicatesAtOnce is how many copies of an event come at the same time.
const duplicatesAtOnce = 50

func deliveryCases() []receiverCase {
	const unique = "store the event under a unique key of event id and integration id (INSERT … ON CONFLICT DO NOTHING), and handle it if that was the first; one statement, not a look and then an insert."
	return []receiverCase{
		{
			name: "Repeated", run: (*examination).repeated,
			consequence: "the platform sends an event again whose answer got lost: it is handled twice, or fails until the address is switched off.",
			fix:         "answer an event that you know as you answered it the first time, with the challenge. " + unique,
		},
		{
			name: "Concurrent", run: (*examination).concurrent,
			consequence: "copies of an event that come at the same time, to two replicas for example, are handled twice.",
			fix:         unique,
		},
		{
			name: "Integrations", run: (*examination).integrations,
			consequence: "a clinic with two integrations gets the same event for each: what the second one's customer waits for never happens.",
			fix:         "make the integration id part of the key that duplicates are recognised by.",
		},
		{
			name: "Reordered", run: (*examination).reordered,
			consequence: "events come in order without guarantee: the older one that comes late fails six times, or is lost.",
			fix:         "acknowledge events in whatever order they come; compare created_at when you handle them, or read the object from the API.",
		},
	}
}

func (x *examination) repeated() {
	n := x.notice(x.EventType)
	if !x.accepts("an event", x.deliver(n.body())) {
		return
	}
	x.handled(n, 1)
	for range 2 {
		e := x.deliver(n.body())
		if !x.accepts("an event that was handled before", e) {
			return
		}
		if wrong := x.acknowledgement(e); wrong != "" {
			x.finding("the answer to an event that was handled before %s", wrong)
			return
		}
	}
	x.catchUp()
	x.notMore(n)
}

func (x *examination) concurrent() {
	n := x.notice(x.EventType)
	body := n.body()
	answers := make([]exchange, duplicatesAtOnce)
	start := make(chan struct{})
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() {
			<-start
			answers[i] = x.deliver(body)
		})
	}
	close(start)
	all.Wait()
	taken := 0
	for _, e := range answers {
		switch {
		case e.err == nil && e.status/100 == 2:
			taken++
		case e.err != nil || e.status/100 != 5 && e.status != http.StatusConflict && e.status != http.StatusTooManyRequests:
			x.finding("one of %d copies of an event that came at once %s; 200, or 503 for those that lost the race, are fine", duplicatesAtOnce, x.describe(e))
			return
		}
	}
	if taken == 0 {
		x.finding("none of %d copies of an event that came at once was accepted; the last %s", duplicatesAtOnce, x.describe(answers[len(answers)-1]))
		return
	}
	x.handled(n, 1)
	x.catchUp()
	x.notMore(n)
}

func (x *examination) integrations() {
	n := x.notice(x.EventType)
	other := n
	other.integration = x.srv.world.integrations.At(1).id
	if !x.accepts("an event for one integration", x.deliver(n.body())) {
		return
	}
	x.handled(n, 1)
	if !x.accepts("the same event for another integration", x.deliver(other.body())) {
		return
	}
	x.handled(n, 2)
	for _, again := range []notice{n, other} {
		x.accepts("either of them once more", x.deliver(again.body()))
	}
	x.catchUp()
	x.notMore(n)
}

func (x *examination) reordered() {
	older, newer := x.notice(x.EventType), x.notice(x.EventType)
	older.CreatedAt = older.CreatedAt.Add(-time.Hour)
	if x.accepts("an event", x.deliver(newer.body())) {
		x.handled(newer, 1)
	}
	if x.accepts("an event that is an hour older than the one before", x.deliver(older.body())) {
		x.ledger[older.ID] = 1 // skipping what is outdated is an answer, too
	}
}

func outageCases() []receiverCase {
	return []receiverCase{
		{
			name: "StorageDown", needs: hookBreakStorage, run: (*examination).storageDown,
			consequence: "what was acknowledged is never sent again: every event that comes while the database is away is lost.",
			fix:         "answer 200 once the event is stored and committed, and 503 if that fails: the platform comes back.",
		},
		{
			name: "SlowHandler", needs: hookBlockHandler, run: (*examination).slowHandler,
			consequence: "the platform stops waiting and sends the event again, which makes more of the slow work; after 24 hours it switches the address off.",
			fix:         "store the event, answer, and handle it outside of the request.",
		},
	}
}

func (x *examination) storageDown() {
	n := x.notice(x.EventType)
	x.BreakStorage(true)
	mend := sync.OnceFunc(func() { x.BreakStorage(false) })
	defer mend()
	for range 2 {
		if e := x.deliver(n.body()); e.err == nil && e.status/100 == 2 {
			x.finding("an event that could not be stored %s", x.describe(e))
			return
		}
	}
	mend()
	if x.accepts("an event that is sent again once it can be stored", x.deliver(n.body())) {
		x.handled(n, 1)
	}
}

func (x *examination) slowHandler() {
	x.BlockHandler(true)
	release := sync.OnceFunc(func() { x.BlockHandler(false) })
	defer release()
	notices := []notice{x.notice(x.EventType), x.notice(x.EventType)}
	for _, n := range notices {
		if !x.accepts("an event, while the handling of events takes its time,", x.deliver(n.body())) {
			return
		}
	}
	x.accepts("the first event once more, while it is handled,", x.deliver(notices[0].body()))
	release()
	for _, n := range notices {
		x.handled(n, 1)
	}
	x.catchUp()
	x.notMore(notices...)
}
