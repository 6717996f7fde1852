// Package dispensarytest runs a fake of the whole dispensary platform in your process: the API
// with its tokens, scopes and rules, the authorize page, the webhook sender, and the actions of
// the platform's own users. Tests call it over real HTTP, or in memory without a socket.
//
//	fake := dispensarytest.New(t)
//	token := fake.Tokens.Issue(fake.Users()[0])
//	// … call fake.Site().BaseURL with token.AccessToken and fake.ClinicKey() …
//	order, event, err := fake.Orders.Place(patientID, model.OrderCreate{})
//	err = fake.Webhooks.WaitDelivered(ctx, event.ID)
//	fake.Journal.CheckNoUnexpected(t)
//
// Every Server is a separate platform, like the real platforms of the United States and Canada.
// It starts with the same small world: a clinic, two practitioners, a staff member, five
// patients and 44 products. One brand is unavailable, and each nullable field of the catalog is
// null somewhere. All ids follow from the seed. Email addresses end in example.com or
// example.org, and phone numbers are 555-01xx.
//
// # Connections
//
// A platform listens on loopback HTTP, on loopback TLS ([WithTLS]), or not at all
// ([WithInMemory]). [Server.Handler] is for your own server. Over TLS and in memory, the platform
// rejects plain HTTP, as the API requires. [Server.HTTPClient] reaches the platform in each case,
// and [Server.Client] returns a ready client of this module. The platform serves its contract,
// an OpenAPI document, at /openapi.yaml beside the API.
//
// In memory, requests time out, stream, are canceled and lose their connection as over a
// network. A platform in memory blocks only on channels and timers, so it runs inside
// testing/synctest. [Server.Host] and [Webhooks.RegisterHandler] add your own handlers:
//
//	synctest.Test(t, func(t *testing.T) {
//		fake := dispensarytest.New(t, dispensarytest.WithInMemory())
//		_, err := fake.Clinics.ActivateKey(fake.ClinicKey())
//		err = fake.Webhooks.RegisterHandler(receiver)
//		order, event, err := fake.Orders.Place(patientID, model.OrderCreate{})
//		err = fake.Webhooks.WaitDelivered(t.Context(), event.ID) // six hours of retries pass at once
//	})
//
// The client's timers also follow the bubble. A hold of 90 seconds after a 429 ends with a sleep
// that takes no time:
//
//	fake.Fault(model.Fault{Effect: model.EffectTooManyRequests, RetryAfter: 90 * time.Second, Times: 1})
//	_, err := client.Clinic.Get(ctx) // ErrRateLimited if ctx ends before the hold
//	time.Sleep(90 * time.Second)
//	_, err = client.Clinic.Get(ctx)
//
// [Server.Browser] walks through an application's authorization flow on the real pages, over
// every kind of connection. [Browser.SetCookie] stores the session of an application that
// recognizes its user by a cookie.
//
// # Time
//
// Codes, tokens, retries, retention and signatures use one [Clock]. A frozen clock moves only by
// [Clock.Advance], which makes every webhook delivery that becomes due before it returns. So a
// test never has to sleep. Timeouts of requests belong to the client and follow the time
// package.
//
// # Events
//
// Your API calls emit no events. Actions of people on the platform do, see [Server]. The API
// itself has one exception: the first request with a valid clinic key emits
// clinic_key.activated.
//
// That request activates the integration. Until then the platform sends no webhook, as the API
// documents. Code under test sends the key with [dispensary.WithClinicKey], or a test calls
// [Clinics.ActivateKey]. [Webhooks.WaitDelivered] reports an inactive integration.
//
// The platform also serves the pages behind a dynamic link, an in-office checkout and an
// invitation. If a person or a test finishes a plan or pays there, the platform emits events.
// The pages need no sign-in, which is an assumption, and do not appear in the journal.
//
// # Faults
//
// [Server.Fault] simulates latency, rejections, a rate limiter, connections that drop before or
// after the platform has done its work, truncated or slow responses, and tokens that become
// invalid between requests. It also simulates webhooks that are lost, repeated, reordered, too
// old, too new or wrongly signed. A [FaultHandle] counts how often the fault has fired.
//
//	lost := fake.Fault(model.Fault{Operation: "patients.create", Effect: model.EffectDropAfterCommit, Times: 1})
//
// # Behaviors
//
// The API leaves some points open. Each one is among the [behavior.Choices], with variants and
// a default, and [WithBehavior] chooses a variant. The command "dispensary probe" tests the
// behavior of a sandbox, and [WithBehaviorsFile] reads the file that it writes.
//
// # Large worlds
//
// Tuning.WorldSize creates clinics with thousands of patients and orders. [Server.Snapshot]
// returns a platform as JSON, and [WithSnapshot] starts another platform from it.
//
// # Checks
//
// [Server.CheckNoLeak], [Journal.CheckBackoffHonored], [Journal.CheckNoNPlusOne],
// [Journal.CheckNoUnexpected] and [Journal.CheckRequested] fail the test. They report the
// expectation, the requests, and the closest one.
//
// # Webhook receivers
//
// Package receivercheck is the acceptance test of a webhook endpoint: a handler, or a server
// behind a URL. It starts its own platform.
//
// # Assumptions
//
// If the API leaves a point open, the platform follows the observations of integrators of
// similar services. This list contains all of these assumptions. If a point has other variants,
// it has a name among the [behavior.Choices], and the list shows the default. The file
// docs/platform.md of this module lists the endpoints, the choices and the faults in tables.
//
// Responses and rejections:
//
//   - Status codes: 201 for created patients, practitioners, staff, plans and checkouts, 200
//     otherwise. 401 for tokens and clinic keys, 403 for scopes and plain HTTP, 404 for ids,
//     paths and methods, 422 for values and states, 400 for a body that is not a JSON object
//     and for a dynamic link without treatment_plan, 413 for a body of more than 1 MiB. The
//     platform checks the path first, then the token, the scope, the format of page and body,
//     the id, and the values.
//   - Bodies: {"error":[…]} with 422, {"error":"…"} with 401 and 403, error and
//     error_description on the token endpoint, and {"status":…,"error":"…"} otherwise. The
//     token endpoint uses the codes of RFC 6749, also for unreadable bodies, and its responses
//     forbid caches to store them.
//   - Unknown fields and parameters are ignored. The [Journal] lists them.
//   - An invalid page number, page size, sort order, date or filter is rejected with 422. So is
//     the practitioner_id of a product request if the clinic has no such practitioner.
//   - A body that is not UTF-8, or escapes half of a surrogate pair, is rejected with 400.
//     Texts contain no NUL and at most 255 characters, personal_message and additional_info at
//     most 65,535. Other texts are rejected with 422.
//   - null clears an optional field, and is rejected for a required one.
//
// Lists:
//
//   - Pages contain 25 items by default and at most 100. A larger page[size] counts as 100. A
//     page beyond the last is empty, with null for next_page and prev_page.
//   - Without sort_by, rows are in the order of their creation.
//   - Date filters accept a day, "<day", ">day" and "day..day". The day of a timestamp is its
//     date as written.
//   - Array filters of the product search keep products that have every value. Its query, like
//     the query of the patient search, matches if every word occurs somewhere.
//   - Similar products are the ten with the most in common: an ingredient counts two, the
//     supplement type one.
//   - An event list rejects event types of another group.
//
// Tokens, scopes and keys:
//
//   - The scope of each endpoint except the dynamic link POST and the creation of plans.
//     clinic.get requires clinic:read, and webhook deliveries require catalog:read. Plans from
//     outside the API require patients:treatment_plan_history. Group scopes grant their
//     members.
//   - After a refresh, the earlier access token stays valid until it expires.
//   - Revoking one token revokes the user's whole consent. Revoking an unknown token succeeds.
//     A successful exchange uses up a code.
//   - A request with the key counts as its first use even if the request is rejected later, for
//     its scope or its body. The platform rejects requests with a revoked key. Bearer tokens
//     without the key stay valid. If a clinic restores a revoked key, the platform emits
//     clinic_key.activated at once.
//   - If a request has no key, the token identifies the clinic, and its integration is the
//     first whose key is not revoked.
//   - A browser stays signed in for 12 hours after a sign-in on the authorize page, or until it
//     is closed. The page asks for consent each time.
//
// Records:
//
//   - Email addresses are unique, ignoring case: one set for practitioners and staff, another
//     for patients. A patient's mobile number is a plus and 7 to 15 digits.
//   - Staff need both names and an email address. Practitioners and staff that were created
//     through the API have no account for signing in.
//   - A patient's discount is a number from 0 to 100, without quotes. total_discount is at most
//     100. Orders pay 4.99 for shipping and no taxes.
//   - A metadata lookup requires an id. Its type is optional, and staff is also a type.
//   - A patient from a dynamic link may have only an email address. The link also accepts the
//     other fields of a patient. A link without a patient creates a plan whose patient is null.
//   - A link must contain a practitioner unless the token belongs to one. A patient of another
//     clinic is rejected.
//   - Protocols can be listed by ownership_type: owned (the default), shared, all.
//
// Plans:
//
//   - A recommendation requires variant_id and units_to_purchase. An empty list of
//     recommendations is rejected. The parts of a dosage are strings.
//   - A draft without a patient or without recommendations cannot be activated.
//   - A draft cannot be canceled, a canceled plan cannot be edited, an update keeps the state,
//     a checkout requires an active plan, and a draft has no invitation.
//
// Events and webhooks:
//
//   - The timeout is 2 seconds. The waits are 1, 5, 30 and 60 minutes and 5 hours, each after
//     the previous failure.
//   - The delivery log has one row for each event and integration. Its response_status is null
//     if there was no response.
//   - An event is delivered only while a consent with its scope is live (see [model.Event]).
//   - Stopped deliveries do not resume when an endpoint is enabled again or a key is restored.
//   - The event of a key's revocation has all its attempts. After it, the integration receives
//     no other event.
//   - Deliveries run one at a time, see Tuning.ParallelDeliveries, and in the order of their
//     events, see [model.EffectDeliveryReordered].
//   - A rate limit does not count the requests that it rejects. It is off unless a
//     [model.Fault] or a behavior sets it.
//   - Events of one object are at least a millisecond apart, even on a frozen clock, and no event
//     is earlier than one before it. So they can be ahead of the clock. Their delivery does not
//     wait.
//   - The data of order.placed and product.created is not wrapped. The data of clinic key
//     events contains clinic and integration. The data of
//     treatment_plan.recommendation.updated is the whole plan.
//   - The activation of a draft on the platform emits treatment_plan.created, and a
//     cancellation emits treatment_plan.updated. Refunds emit no event.
//
// # Deviations
//
// The platform knowingly differs from the API, or omits a part of it, in these points.
//
// Of the API:
//
//   - Plain HTTP is accepted on loopback, except with [WithTLS], [WithInMemory] or
//     Tuning.TLSRequired. With [WithTLS], it receives status 400 before it reaches the API, and
//     does not appear in the [Journal].
//   - On a loopback address, requests under a host name other than loopback are rejected.
//   - Version 1, patch versions other than 2020-02-14 and the versions endpoint, whose path the
//     API does not show, are not supported.
//   - The API has no PKCE: code_challenge and code_verifier are ignored.
//   - There is one application. Options and methods replace the developer dashboard.
//
// Of webhooks:
//
//   - The URL of an endpoint has neither user nor fragment.
//   - An endpoint on loopback may have a plain HTTP URL. Certificates are checked, but
//     compliance with HIPAA is not.
//   - With a [model.Fault], deliveries are lost, repeated or wrongly signed.
//   - With [behavior.IntegrationActivationFromTheStart], integrations are active before the
//     first request with the clinic key, and that request emits no clinic_key.activated.
//
// Of the pages for people:
//
//   - Users can sign in on the authorization page, but not sign up.
//   - The pages behind links need no sign-in, and no payment takes place.
//   - The platform sends no email and no text message. The URLs of images, and of the clinic's
//     page for patients, lead nowhere.
//
// Of time and memory:
//
//   - Time follows a [Clock] that can be frozen and advanced.
//   - Events and webhook deliveries older than 30 days are deleted, also from [Server.Events]
//     and [Webhooks.Deliveries]. Orders, plans and other records stay.
package dispensarytest
