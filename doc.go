// Package dispensary is a client for the API of a supplement dispensary, made
// for electronic health records and everything else that acts for practitioners
// and their clinics.
//
// A [Client] talks to one [Site] of the platform: an [Environment] with its URLs, which the
// platform gives to its integrators. A first call takes two lines:
//
//	client, err := dispensary.New(dispensary.USSandbox.At(url), dispensary.WithAccessToken(token))
//	practice, err := client.Clinic.Get(ctx)
//
// [NewFromEnv] reads URL and token from environment variables.
//
// Every practitioner and staff member has their own token. [Client.With] returns a view of
// the client for each of them. A view is a small struct:
//
//	jane, err := client.With(dispensary.WithTokenSource(janesTokens))
//	product, err := jane.Catalog.Products.Get(ctx, id)
//
// Package accounts keeps a client for each user; package oauth obtains, stores and
// refreshes their tokens. Package webhook receives the platform's events. Package
// dispensarytest is the whole platform in a process, for tests and for a developer's
// machine.
//
// # Lists
//
// A list method sends nothing and returns an [api.List]. All ranges over its items, Pages
// over its pages, and Page returns one. The sequences fetch pages while you range over them,
// and end with the first error. Limit, Prefetch and other methods return a changed list:
//
//	for product, err := range client.Catalog.Products.List().All(ctx) {
//		if err != nil {
//			return err
//		}
//	}
//
// # Errors
//
// A call that fails returns an [*Error], or an [*api.ArgumentError] ([api.ArgumentErrors] for
// several) where it was never sent because of its arguments. [ProblemOf] describes
// each error for the user: a status, a sentence, and messages for the fields of a form. Test
// the meaning with [errors.Is]:
//
//	switch {
//	case errors.Is(err, dispensary.ErrNotFound):
//	case errors.Is(err, dispensary.ErrMaybeApplied): // the answer to a write was lost: look before repeating
//	case errors.Is(err, dispensary.ErrReauthorize):  // send the user to the authorization page
//	}
//
// Reads are retried when the network, the rate limit or the server fails. A
// write is retried only when it provably was not sent, or when the platform
// refused it for now and said until when. Waits respect the context's deadline;
// a Retry-After beyond [RetryPolicy]'s cap fails at once. A 429 with Retry-After holds
// back the calls of all views of a client; see [RetryPolicy].
//
// # Observing calls
//
// [WithLogger] writes a line for each attempt, and [WithObserver] reports how calls go:
// what was sent again and why, how long it took, how it ended. Package
// dispensaryotel, with its own go.mod, makes spans and metrics of that, and of what packages
// oauth and webhook report.
//
// # Privacy
//
// Errors, logs and printed models hold no token, secret, address, query or body,
// and of records no more than type and id. [Error.Body] and [Error.Messages]
// give what the platform wrote to those who ask for it.
package dispensary
