// Package dispensary is a client for the API of a supplement dispensary. It is made for
// electronic health records (EHR) and other programs that act for practitioners and their
// clinics.
//
//	client, err := dispensary.New(dispensary.USSandbox.At(url), dispensary.WithAccessToken(token))
//	practice, err := client.Clinic.Get(ctx)
//
// # Usage
//
// A [Client] calls one [Site] of the platform: an [Environment] with its URLs. The platform
// gives the URLs to its integrators. [NewFromEnv] reads the URL and the token from environment
// variables.
//
// Each practitioner and staff member has their own token. [Client.With] returns a view of the
// client for each user. A view is a small struct:
//
//	jane, err := client.With(dispensary.WithTokenSource(janesTokens))
//	product, err := jane.Catalog.Products.Get(ctx, id)
//
// Other packages build on the client:
//   - Package integration runs a complete integration from one configuration.
//   - Package accounts keeps a client for each user. Package oauth and its subpackages obtain,
//     store and refresh the users' tokens.
//   - Package webhook receives the platform's events.
//   - Package dispensarytest is a fake of the whole platform in your process, for tests and
//     development.
//
// # Lists
//
// A list method sends nothing and returns an [api.List]. All ranges over its items and Pages
// over its pages. Page returns the first page. The sequences fetch pages while you range over
// them, and end with the first error. Limit, Prefetch and other methods return a changed list:
//
//	for product, err := range client.Catalog.Products.List().All(ctx) {
//		if err != nil {
//			return err
//		}
//	}
//
// # Retries
//
// A read is retried if the network, the rate limit or the server fails. A write is retried
// only if the client can prove that it was not sent, if the platform responded with 429 and a
// Retry-After, or once with a fresh token after a 401. Waits respect the deadline of the
// context. A Retry-After longer than [RetryPolicy].MaxRetryAfter fails at once. A 429 with
// Retry-After pauses the calls of all views of a client, see [RetryPolicy].
//
// # Errors
//
// A failed call returns an [*Error]. If its arguments are invalid, it sends nothing and
// returns an [*api.ArgumentError], or [api.ArgumentErrors] for several. [ProblemOf] describes
// each error for the user: a status, a sentence, and messages for the fields of a form. Test
// the meaning with [errors.Is]:
//
//	switch {
//	case errors.Is(err, dispensary.ErrNotFound):
//	case errors.Is(err, dispensary.ErrMaybeApplied): // the response to a write was lost: check before repeating
//	case errors.Is(err, dispensary.ErrReauthorize):  // send the user to the authorization page
//	}
//
// # Observing calls
//
// [WithLogger] writes a line for each attempt. [WithObserver] reports each call with its
// retries and their reasons, its duration and its result. Package dispensaryotel, a module of
// its own, turns these reports, and the reports of packages oauth and webhook, into
// OpenTelemetry spans and metrics.
//
// # Privacy
//
// Errors, logs and printed models contain no token, secret, URL, query or body, and only the
// type and ID of a record. The platform's text about a failure is available only from
// [Error.Body] and [Error.Messages].
package dispensary
