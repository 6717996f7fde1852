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
// The platform does not send an acknowledged event again, so the inbox decides what can be lost.
//
//   - Package memoryinbox loses its events when the process ends. It is for tests.
//   - Package sqlinbox stores events in a SQLite file and syncs it before the response. It is
//     for a program of one process: nothing to install, and no loss by a crash.
//   - Package riverinbox stores them in PostgreSQL, with River as the queue. It is for any
//     number of processes, and for handlers that write rows in the inbox's transaction.
//   - Package publish sends events to a broker: NATS JetStream, RabbitMQ, Kafka, Redis Streams,
//     or another one of Watermill.
//
// The last three are separate modules below this folder, so that a program depends on the one
// it uses. All but publish are an engine.Engine, and handle events as a [Work] says, so
// a change of the engine is a change of a few lines.
//
// # Delivery guarantees
//
// The handler acknowledges an event once the inbox has stored it. Your function runs afterwards,
// outside of the request. The timeout of the platform is short: an inbox may take 800 milliseconds
// by default. After that the response is 503, and the platform sends the event again.
//
// Events are handled at least once. A function can see an event again after it failed, or after
// a crash between its end and the record of it: make it idempotent. An event that fails is
// retried for about ten hours by default, see [RetryPolicy]. Then it becomes a dead letter,
// which stays until it is replayed or discarded. [Permanent] marks an event that no retry can
// help. An event of an unknown type is stored like any other, and goes to [Router.Default].
//
// # Order
//
// The platform sends events in order "without guarantee", and retries one while it sends the
// next. There are three remedies, from the weakest to the strongest:
//
//   - [Work.Order] handles the events of one object, patient or clinic one at a time, oldest
//     first.
//   - [Work.Stale] reports or skips an event that arrives after a newer event of its object was
//     handled, see [HandlingFrom]. It cannot order two changes of one time.
//   - The handler ignores the event's data and reads the object by its ID from the API.
//     Then neither late nor repeated events do harm.
//
// # Secrets and keys
//
// To rotate the secret, set both secrets in [HandlerConfig].Secrets until the change of
// the dashboard has taken effect everywhere. A header with several signatures is accepted if one
// of them matches one of the secrets.
//
// Bodies stay encrypted with the key of their arrival. To retire a key, call Reseal, a method of
// every engine that encrypts.
//
// # Several environments and applications
//
// A program can have a handler for each, at different paths. Or one path serves them all, and
// [HandlerConfig].Tenant returns the [Tenant] of a request. Environments can share an inbox,
// because they are part of an event's [Key]. Two applications in one environment need an inbox
// each.
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
// # Operation
//
// The platform keeps events that it could not deliver, or did not send while the endpoint was
// disabled, in its event lists for 30 days. Package reconcile accepts them into the same inbox
// under the same [Key].
//
// An engine lists, counts, replays and discards dead letters by type, clinic, reason and age:
// see engine.Filter. Package admin is a page for that.
//
// An [Observer] watches requests, in [HandlerConfig], and attempts, in [Work]. Package
// dispensaryotel makes spans and metrics of them.
//
// # Patient data
//
// Logs, errors and all printed forms of the types of this package contain IDs, types and
// reasons. They contain nothing of a body, and not the text of the errors that your functions
// return, which may repeat it: [Observer] and dead letters have those. Stored bodies are
// encrypted, see package engine.
//
// API section: "Webhooks", "Signature header".
package webhook
