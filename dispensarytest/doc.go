// Package dispensarytest is a whole dispensary platform in one process: the API
// with its tokens, scopes and rules, the authorize page, the webhook sender, and
// the platform's own users. Tests run against it over real HTTP, or without any
// socket.
//
//	fake := dispensarytest.New(t)
//	token := fake.Tokens.Issue(fake.Users()[0])
//	// … call fake.Site().BaseURL with token.AccessToken and fake.ClinicKey() …
//	order, event, err := fake.Orders.Place(patientID, model.OrderCreate{})
//	err = fake.Webhooks.WaitDelivered(ctx, event.ID)
//	fake.Journal.CheckNoUnexpected(t)
//
// Every Server is a separate platform, as the United States and Canada are on
// the real one. It starts with the same small world: a clinic, two practitioners,
// a member of staff, five patients and 44 products. One brand is unavailable, and
// each nullable field of the catalog is null somewhere. All ids follow from the
// seed. People have addresses that end in example.com or example.org, and phone
// numbers 555-01xx.
//
// # Ways in
//
// A platform listens on loopback HTTP, or on loopback TLS ([WithTLS]), or not at
// all ([WithInMemory]); [Server.Handler] is for your own server. Over TLS and
// in memory plain HTTP is refused, as the API says. [Server.HTTPClient] leads to
// the platform each way, and [Server.Client] is a client of this module that is
// ready to use. The contract, an OpenAPI document, is at /openapi.yaml beside
// the API.
//
// In memory requests time out, stream, are canceled and break off as on a
// connection, and nothing blocks on anything but channels and timers: a platform
// in memory runs inside testing/synctest. [Server.Host] and
// [Webhooks.RegisterHandler] bring the integrator's own handlers in:
//
//	synctest.Test(t, func(t *testing.T) {
//		fake := dispensarytest.New(t, dispensarytest.WithInMemory())
//		_, err := fake.Clinics.ActivateKey(fake.ClinicKey())
//		err = fake.Webhooks.RegisterHandler(receiver)
//		order, event, err := fake.Orders.Place(patientID, model.OrderCreate{})
//		err = fake.Webhooks.WaitDelivered(t.Context(), event.ID) // six hours of retries pass at once
//	})
//
// The client's timers are in the bubble, too. A hold of 90 seconds after a 429 ends with
// a sleep that takes no time:
//
//	fake.Fault(model.Fault{Effect: model.EffectTooManyRequests, RetryAfter: 90 * time.Second, Times: 1})
//	_, err := client.Clinic.Get(ctx) // ErrRateLimited if ctx ends before the hold
//	time.Sleep(90 * time.Second)
//	_, err = client.Clinic.Get(ctx)
//
// [Server.Browser] walks an application's authorization flow through the real
// pages, whichever way. [Browser.SetCookie] gives it the session of an application that
// knows its user by a cookie.
//
// # Time
//
// Codes, tokens, retries, retention and signatures read one [Clock]. A frozen
// clock moves by [Clock.Advance] alone, which makes every webhook delivery that
// falls due on the way before it returns. Nothing in a test has to sleep. How
// long a request may take is the client's business and the time package's.
//
// # What makes events
//
// What the integrator does through the API makes no events; what people do on
// the platform does, see [Server]. The one exception is the API's own:
// clinic_key.activated, on the first request with a valid clinic key.
//
// That request activates the integration. Until then the platform sends no webhook, as the
// API says. Code under test sends the key with [dispensary.WithClinicKey], or a test calls
// [Clinics.ActivateKey]. [Webhooks.WaitDelivered] names an inactive integration.
//
// The pages behind a dynamic link, an in-office checkout and an invitation are served
// too: a person, or a test, finishes a plan or pays there, and that makes events. They
// work without signing in, which is an assumption, and are not in the journal.
//
// # When things go wrong
//
// [Server.Fault] makes them: latency, refusals, a rate limiter, connections that
// break off before and after the platform has done its work, answers that are cut
// short or trickle in, tokens that end in between, and webhooks that are lost,
// repeated, reordered, too old, too new or wrongly signed. A [FaultHandle] tells
// how often each has fired.
//
//	lost := fake.Fault(model.Fault{Operation: "patients.create", Effect: model.EffectDropAfterCommit, Times: 1})
//
// # What the API leaves open
//
// Each such point is one of the [behavior.Choices], with variants and a default, chosen
// by [WithBehavior]. The command "dispensary probe" tests how a sandbox behaves, and
// [WithBehaviorsFile] reads the file that it writes.
//
// # Large worlds
//
// Tuning.WorldSize makes clinics with thousands of patients and orders. [Server.Snapshot]
// returns a platform as JSON, and [WithSnapshot] starts another one from it.
//
// # Checks
//
// [Server.CheckNoLeak], [Journal.CheckBackoffHonored],
// [Journal.CheckNoNPlusOne], [Journal.CheckNoUnexpected] and [Journal.CheckRequested]
// report the expectation, the requests, and the nearest one.
//
// # Is my receiver right?
//
// Package receivercheck is the acceptance test of an endpoint for webhooks: of a
// handler, or of a server behind a URL. It starts its own platform.
//
// # Assumptions
//
// The API leaves points open. Where it does, the platform does what integrators
// of such services have met, and says so here. What can be decided in another way
// has a name among the [behavior.Choices]; these are the defaults. The file docs/platform.md
// of this module lists the endpoints, the choices and the faults in tables.
//
// Answers and refusals:
//
//   - Status codes: 201 for created patients, practitioners, staff, plans and
//     checkouts, 200 otherwise; 401 for tokens and clinic keys, 403 for scopes and
//     plain HTTP, 404 for ids, paths and verbs, 422 for values and states, 400 for
//     what is not a JSON object and for a dynamic link without treatment_plan, 413
//     for a body of more than 1 MiB. The path is checked first, then the token, the
//     scope, the forms of page and body, the id, and the values.
//   - Their bodies are {"error":[…]} with 422, {"error":"…"} with 401 and 403,
//     error and error_description on the token endpoint, and
//     {"status":…,"error":"…"}. The token endpoint's codes are those of RFC 6749,
//     for bodies that cannot be read, too, and its answers forbid caches to store them.
//   - Unknown fields and parameters are ignored; the [Journal] has them.
//   - A bad page number, page size, sort order, date or filter is refused with 422, as
//     is a practitioner_id of a product whom the clinic does not have.
//   - A body that is not UTF-8, or has an escape for half a surrogate pair, is refused
//     with 400. Texts have no NUL and 255 characters at most, personal_message and
//     additional_info 65,535; others are refused with 422.
//   - null clears an optional field, and is refused for a required one.
//
// Lists:
//
//   - Pages hold 25 items, 100 at most; a bigger page[size] counts as 100. A page
//     beyond the last is empty, and next_page and prev_page are null.
//   - Without sort_by, rows come in the order they were created in.
//   - Date filters take a day, "<day", ">day" and "day..day", days being those of
//     the timestamp as it is written.
//   - Array filters of the product search keep products that have every value; its
//     query, as that of the patient search, matches every word somewhere.
//   - Similar products are the ten that share most: an ingredient counts two, the
//     supplement type one.
//   - An event list refuses event types of another group.
//
// Tokens, scopes and keys:
//
//   - The scope of each endpoint but the dynamic link POST and the creation of
//     plans; clinic.get takes clinic:read, webhook deliveries take catalog:read.
//     Plans made outside the API take patients:treatment_plan_history. Group scopes
//     grant their members.
//   - After a refresh the access token before stays good until it expires.
//   - Revoking one token ends the user's whole consent; an unknown token is
//     revoked without complaint. A code is used up by the exchange that succeeds.
//   - A request with the key counts as its first use even if it is refused later, for
//     its scope or its body. A revoked key refuses the requests that carry it;
//     bearer tokens without it stay good. A clinic that takes a revoked key back
//     makes clinic_key.activated at once.
//   - The token names the clinic where no key is sent, and its integration is the first
//     whose key was not revoked.
//   - A browser that signed in on the authorize page stays signed in for 12 hours, or
//     until it is closed. Consent is asked for each time.
//
// Records:
//
//   - E-mail addresses are unique whatever their case; those of practitioners and
//     staff are one set, those of patients another. A patient's mobile number is a
//     plus and 7 to 15 digits.
//   - Staff need both names and an address. Practitioners and staff that are made
//     through the API have no account to sign in with.
//   - A patient's discount is a number from 0 to 100, without quotes. total_discount
//     ends at 100. Orders pay 4.99 for shipping and no taxes.
//   - Metadata is looked up by an id, which has to be given; type can be left out,
//     and staff is a type, too.
//   - A patient whom a dynamic link makes may have an e-mail address alone; the link
//     takes the other fields of a patient, too. A link without patient makes a plan
//     whose patient is null.
//   - A link names its practitioner, unless the token is a practitioner's. A patient of
//     another clinic is refused.
//   - Protocols can be listed by ownership_type: owned (the default), shared, all.
//
// Plans:
//
//   - A recommendation needs variant_id and units_to_purchase; an empty list of
//     recommendations is refused. The parts of a dosage are strings.
//   - A draft that names no patient or recommends nothing cannot be activated.
//   - A draft cannot be canceled, a canceled plan cannot be edited, an update
//     leaves the state as it is, a checkout needs an active plan, a draft has no
//     invitation.
//
// Events and webhooks:
//
//   - A time-out of 2 seconds; waits of 1, 5, 30 and 60 minutes and 5 hours, each
//     from the failure before; one row in the delivery log for each event and
//     integration, whose response_status is null without an answer; delivery only
//     while a consent is live that has the event's scope (see [model.Event]); nothing is
//     resumed when an endpoint is enabled again, or a key is given back. The news that
//     a key was revoked has all its attempts; the integration is sent nothing else from
//     then on. Deliveries go one at a time, see
//     Tuning.ParallelDeliveries, and in the order of
//     their events, see [model.EffectDeliveryReordered].
//   - A rate limit does not count what it refuses, and is off unless a [model.Fault] or
//     a behavior sets it.
//   - Events of one object are at least a millisecond apart, also where the clock stands,
//     and can be ahead of it for that. Their delivery does not wait.
//   - The data of order.placed and product.created is not wrapped; the data of
//     clinic key events names clinic and integration; the data of
//     treatment_plan.recommendation.updated is the whole plan.
//   - A draft on the platform makes treatment_plan.created when it is activated;
//     canceling makes treatment_plan.updated. Refunds make no event.
//
// # Deviations
//
// Where it knowingly does something else than the API says, or leaves something out:
//
// Of the API:
//
//   - Plain HTTP is answered on loopback, unless [WithTLS], [WithInMemory] or
//     Tuning.TLSRequired say otherwise. With [WithTLS], it gets status 400 before it
//     reaches the API, and the [Journal] does not have it.
//   - On a loopback address, requests under a name that is none of loopback are refused.
//   - Version 1, other patch versions than 2020-02-14 and the versions endpoint,
//     whose path is not shown, are not there.
//   - The API has no PKCE: code_challenge and code_verifier are ignored.
//   - There is one application; the developer dashboard is its options and methods.
//
// Of webhooks:
//
//   - An endpoint's address has neither user nor fragment.
//   - An endpoint on loopback may have a plain HTTP address. Certificates are
//     checked, compliance with HIPAA is not.
//   - With a [model.Fault], deliveries are lost, repeated or wrongly signed.
//   - With [behavior.IntegrationActivationFromTheStart], integrations are active before the first
//     request with the clinic key, and that request emits no clinic_key.activated.
//
// Of the pages for people:
//
//   - The authorization page lets users sign in, and not sign up.
//   - The pages behind links work without signing in. Nothing is paid for.
//   - No e-mail and no text message is sent. The addresses of images, and of the
//     clinic's page for patients, lead nowhere.
//
// Of time and memory:
//
//   - Time is that of a [Clock] that can be frozen and moved.
//   - Events and webhook deliveries older than 30 days are deleted, also from
//     [Server.Events] and [Webhooks.Deliveries]. Orders, plans and other records stay.
package dispensarytest
