// Package listen forwards the platform's events to an address on your own machine, signed
// and shaped as its webhooks are, without a tunnel and without a relay: it asks the
// platform what happened, so nothing has to reach you from outside.
//
// # What a listener does
//
// [Listener.Run] polls the event lists of one clinic or of several, every few seconds. It
// reads the data of each new event, makes the body that a webhook would have had, signs it
// with a secret of your choice, and posts it to the address. An event is done when the
// answer is one that the platform would count as delivered: status 200 or 201 with the
// challenge token. How far it came stands in the cursor file.
//
// The [webhook.Key] of a forwarded event is that of its webhook. So an inbox that has had
// the webhook recognises the event, and the other way round.
//
// # What you can rely on
//
// Nothing is lost while the listener is off, as long as that is less than the 30 days for
// which the platform keeps events: it goes on where the cursor file ends. An event that the
// address does not acknowledge stays, and is tried again, after a second, then two, and so
// on up to a minute.
//
// Events are forwarded at least once. The cursor file is written once a second while there
// is something to forward, and when the listener ends: one that is killed repeats up to a
// second of events.
//
// The events of one object, of a patient for example, arrive in the order in which they
// happened: while one waits for its next attempt, the later ones of its object wait, too,
// and no others. While the address cannot be reached at all everything waits.
//
// # What it costs
//
// Each poll takes a call for each of the five groups of events, and each event one more for
// its data. They go through the client that you give, and so wait for its rate limiter.
//
// API sections: "Events", "Webhooks" 2, 3, "Signature header".
package listen
