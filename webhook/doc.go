// Package webhook receives the platform's webhooks: it proves where a request
// comes from, stores its event before acknowledging it, and hands it, decoded,
// to the function that was registered for it.
//
//	request ─► Handler ─► Inbox ─► worker ─► Router ─► your function
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
//	inbox, err := webhook.NewMemoryInbox(webhook.MemoryConfig{Handle: router.Dispatch})
//	…
//	handler, err := webhook.NewHandler(webhook.Config{
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
// request bodies, because the signature is made of the body's exact bytes, and
// give the server a ReadTimeout.
//
// # What you can rely on
//
// An event is acknowledged when the inbox has stored it and not before, and your
// function runs afterwards, outside of the request. The platform's time-out is
// short, so it is the inbox that may take 800 milliseconds by default, not your
// function; past that the answer is 503 and the platform sends the event again.
//
// Events are handled at least once. A function may see an event again after it
// failed, or after a crash between its end and the note of it, and it may see
// events out of order: make it harmless to repeat, and where only the latest
// state counts, read the object through the API instead of trusting the event.
//
// An event of an unknown type is stored and acknowledged like any other, and
// goes to [Router.Default].
//
// # Rotating the secret
//
// Give both secrets in [Config.Secrets], the new and the old, until the
// dashboard's change has taken effect everywhere. A header with several
// signatures is accepted if any of them matches any secret.
//
// # Staying switched on
//
// The platform switches an address off when it is answered with 410, which
// [Handler] cannot do, or when everything fails for 24 hours. Count refused and
// unavailable requests with [Config.Observe]; the reason of each is in the log:
//
//   - a mismatch is usually the wrong secret: the challenge token, or another
//     environment's
//   - [ErrBodyConsumed] is a middleware that read or rewrote the body
//   - [ErrTimestampTooOld] and [ErrTimestampTooNew], all of a sudden and for
//     every request, are a clock that went wrong
//   - [ErrInbox], [ErrInboxTimeout] and [ErrInboxFull] are the storage
//
// What was missed can be read from the event lists for 30 days.
//
// # Nothing leaks
//
// Logs, errors and every way of printing the types of this package hold ids,
// types and reasons. They hold nothing of a body, and not the text of the errors
// that your functions return, which may repeat it: [MemoryConfig.Observe] has
// those.
//
// API section: "Webhooks", "Signature header".
package webhook
