// Package webhook receives the platform's webhooks. It verifies each request, stores its event
// before acknowledging it, and passes the decoded event to your function.
//
//	request ─► Handler ─► Inbox ─► Worker ─► Router ─► your function
//	           verifies    stores,  retries   decodes
//	           responds    deduplicates
//
// # Usage
//
// A [Router] calls your functions, an [Inbox] stores events and handles them, and a [Handler]
// serves the endpoint:
//
//	var router webhook.Router
//	router.OnOrderPlaced(func(ctx context.Context, order events.OrderEvent) error {
//		return ship(ctx, order.Object)
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
// Secret and challenge are two different values in the developer dashboard: the secret key
// verifies requests, and the challenge token acknowledges them. Each environment has its own.
//
// Mount the handler in front of all middleware that reads request bodies, because the signature
// covers the exact bytes. It is an [http.Handler]: mount it with gin.WrapH in gin, and with
// echo.WrapHandler in Echo. The handler limits the time for the body, so the server only needs a
// ReadHeaderTimeout. To serve several applications or environments, see [Tenant].
//
// # Inboxes
//
// The platform never sends an acknowledged event again, so the inbox decides which losses are
// possible.
//
//   - memoryinbox loses its events when the process ends. Use it in tests.
//   - sqlinbox stores events in a SQLite file and syncs it before the response. Use it for one
//     process: there is nothing to install, and a crash loses no event.
//   - riverinbox stores events in PostgreSQL, with River as the queue. Use it for any number of
//     processes, and for handlers that write rows in the transaction of the inbox.
//   - publish sends events to a broker: NATS JetStream, RabbitMQ, Kafka, Redis Streams, or any
//     other broker of Watermill.
//
// The last three are separate modules, so your program depends only on the one that it uses. All
// except publish implement engine.Engine and take a [Work], so changing the engine takes a few
// lines.
//
// # Guarantees
//
//   - The handler acknowledges an event after the inbox has stored it. Your function runs
//     later, outside the request. An inbox may take 800 ms by default. After that the response is
//     503, and the platform sends the event again.
//   - Events are handled at least once. Make your functions idempotent: an event is repeated after
//     a failure, or after a crash between the end of the function and the record of it.
//   - A failed event is retried for about 10 hours by default, see [RetryPolicy]. Then it becomes
//     a dead letter, which stays until you replay or discard it. [Permanent] marks an error that
//     no retry can fix.
//   - An event of an unknown type is stored like any other, and [Router.Default] handles it.
//
// # Order
//
// The platform sends events in order "without guarantee": it sends the next event while it
// retries a failed one. There are three remedies, from the weakest to the strongest:
//
//   - [Work.Order] handles the events of one object, patient or clinic one at a time, oldest
//     first.
//   - [Work.Stale] reports or skips an event that arrives after a newer event of its object was
//     handled, see [HandlingFrom]. It cannot order two changes with the same time.
//   - Your function ignores the data of the event and reads the object by its ID from the API.
//     Then late and repeated events do no harm.
//
// # Operation
//
// The platform disables an endpoint if every delivery fails for 24 hours. An [Alarm] warns long
// before. The log contains the reason of each failure, and the errors of this package list the
// usual causes. An [Observer] watches requests (in [HandlerConfig]) and attempts (in [Work]).
// Package dispensaryotel turns its calls into spans and metrics.
//
// The platform keeps all events in its event lists for 30 days, even if it could not deliver
// them or did not send them to a disabled endpoint. Package reconcile accepts those into the same
// inbox under the same [Key]. To list, count, replay and discard dead letters by type, clinic,
// reason and age, use engine.Filter or the page of package admin.
//
// # Privacy
//
// Logs, errors and printed values of this package contain IDs, types and reasons. They contain no
// part of a body, and not the texts of your functions' errors, which may repeat it. Only an
// [Observer] and dead letters contain those. Engines encrypt bodies at rest, see package engine.
//
// API section: "Webhooks", "Signature header".
package webhook
