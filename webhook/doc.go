// Package webhook receives the platform's webhooks: it proves where a request
// comes from, stores its event before acknowledging it, and hands it, decoded,
// to the function that was registered for it.
//
//	request ─► Handler ─► Inbox ─► Worker ─► Router ─► your function
//	           verifies    stores,  retries   decodes
//	           answers     de-duplicates
//
// # Setting up
//
// A [Router] holds your functions, an [Inbox] stores events and works them off,
// and a [Handler] is mounted in your server:
//
//	var router webhook.Router
//	router.OnOrderPlaced(func(ctx context.Context, order events.OrderEvent) error {
//		return fulfil(ctx, order.Data)
//	})
//
//	inbox, err := sqlinbox.Open("inbox.db", sqlinbox.Config{
//		Work: webhook.Work{Handle: router.Dispatch},
//		Seal: ring,
//	})
//	…
//	handler, err := webhook.NewHandler(webhook.HandlerConfig{
//		Environment: environment,
//		Secrets:     []api.Secret{secret},
//		Challenge:   challenge,
//		Inbox:       inbox,
//		Logger:      slog.Default(),
//	})
//	…
//	mux.Handle("/webhooks/dispensary", handler)
//
// Secret and challenge are two different values of the developer dashboard: the
// secret key verifies what comes in, the challenge token acknowledges it. Each
// environment has its own. Mount the handler in front of everything that reads
// request bodies, because the signature is made of the body's exact bytes. The handler
// limits the time for the body, so the server only needs a ReadHeaderTimeout.
//
// # Choosing an inbox
//
// What is acknowledged is yours: the platform does not send it again. So the
// inbox decides what can be lost.
//
//   - Package memoryinbox loses what it holds when the process ends.
//     It is for tests and for trying things out.
//   - Package sqlinbox keeps events in a SQLite file that is synced before the
//     answer. It is for a program of one process: nothing to install, and
//     nothing lost by a crash. A second process is refused.
//   - Package riverinbox keeps them in PostgreSQL, with River as the queue. It is
//     for a program of several processes, on one machine or on twenty, and for
//     handlers that write their rows in the inbox's transaction.
//   - Package publish hands events to a broker: NATS JetStream, RabbitMQ, Kafka,
//     Redis Streams, or another one of Watermill. It is for programs whose events
//     live there, and says what each broker promises and what it does not.
//
// The last three are separate modules below this folder, so that none of them
// is a dependency of programs that use another.
//
// All but the last implement engine.Engine, which lists their promises, and handle events
// by a [Work]. To change the engine, change a few lines.
//
// # What you can rely on
//
// An event is acknowledged when the inbox has stored it and not before, and your
// function runs afterwards, outside of the request. The platform's time-out is
// short, so it is the inbox that may take 800 milliseconds by default, not your
// function; past that the answer is 503 and the platform sends the event again.
//
// Events are handled at least once. A function may see an event again after it
// failed, or after a crash between its end and the record of it: make it harmless
// to repeat. An event that fails is tried again for about ten hours by default,
// see [RetryPolicy], and then becomes a dead letter, which stays until it is
// replayed or discarded. One that no attempt can help is marked by [Permanent].
//
// An event of an unknown type is stored and acknowledged like any other, and
// goes to [Router.Default].
//
// # Order
//
// The platform sends events in order "without guarantee", and tries one again
// while it sends the next. Three means, from the weakest to the strongest:
//
//   - [Work.Order] keeps what has arrived in order: of one object, one patient or
//     one clinic, one event at a time and the oldest first.
//   - [Work.Stale] tells what arrives after a newer event of its object was
//     handled: [HandlingFrom] says so to the function, or it is skipped. It
//     cannot tell which of two changes of one time was the last.
//   - The handler ignores the event's data and reads the object by its id from the
//     API. Then neither late nor repeated events do harm.
//
// # Retiring a key
//
// Bodies stay sealed with the key that they arrived under, dead letters without limit.
// Reseal, a method of every engine that seals, seals them with the key of
// today, after which the old one can go.
//
// # Rotating the secret
//
// Give both secrets in [HandlerConfig].Secrets, the new and the old, until the
// dashboard's change has taken effect everywhere. A header with several
// signatures is accepted if any of them matches any secret.
//
// # Several environments and applications
//
// A program can have a handler for each, at different addresses. Or one address
// serves them all: [HandlerConfig].Tenant says from a request which [Tenant] it is for.
// Environments can share an inbox, as they are part of an event's [Key]; two
// applications in one environment need an inbox each.
//
// # Staying enabled
//
// The platform disables an endpoint that responds with 410, which [Handler] never does, or
// if every delivery fails for 24 hours. An [Alarm], set as [Observer].RequestEnd, warns
// long before. It counts the program's own failures at once, and rejected requests only
// after the platform's delivery log or their duration has confirmed them, because anybody
// can send one. A program with several paths reports an unknown path with
// [NotFoundHandler]. The log contains the reason of each failure:
//
//   - A mismatch usually is the wrong secret: the challenge token, or the secret of another
//     environment.
//   - [ErrUnknownTenant] and [ErrUnknownPath] are a renamed path or a lost tenant.
//   - [ErrSignatureMissing] can be a proxy that removes unknown headers.
//   - [ErrBodyConsumed] is a middleware that read or rewrote the body.
//   - [ErrTimestampTooOld] and [ErrTimestampTooNew] for every request are a wrong clock.
//   - [ErrInbox], [ErrInboxTimeout] and [ErrInboxFull] are the storage.
//
// # Missed webhooks
//
// What the platform could not deliver, or did not try to while the address was
// switched off, stays in its event lists for 30 days. Package reconcile finds it and
// accepts it into the same inbox under the same [Key], so that webhook, repetition
// and recovery are one event.
//
// # After a bad night
//
// What an engine has given up is listed, counted, replayed and discarded by type,
// clinic, reason and age: see engine.Filter. Package admin is a page that does so, for
// the people who run the program.
//
// # Watching
//
// An [Observer] watches requests, in [HandlerConfig], and attempts, in [Work]: for
// counters, and for traces, as what its start functions put into the context reaches
// everything that follows. The module's otel package makes spans and metrics of them.
//
// # Nothing leaks
//
// Logs, errors and every way of printing the types of this package hold ids,
// types and reasons. They hold nothing of a body, and not the text of the errors
// that your functions return, which may repeat it: [Observer] and
// dead letters have those. Bodies are at rest only sealed, see package engine.
//
// API section: "Webhooks", "Signature header".
package webhook
