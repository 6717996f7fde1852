// Package dispensarytest is a whole dispensary platform in one process: the API
// with its tokens, scopes and rules, the authorize page, the webhook sender, and
// the platform's own users. Tests run against it over real HTTP.
//
//	fake := dispensarytest.New(t)
//	token := fake.IssueToken(fake.Users()[0])
//	// … call fake.BaseURL() with token.AccessToken …
//	order, event, err := fake.Platform().PlaceOrder(patientID, dispensarytest.NewOrder{})
//	err = fake.WaitDelivered(ctx, event.ID)
//	fake.Journal().CheckNoUnexpected(t)
//
// Every Server is a platform of its own, as the United States and Canada are on
// the real one. It starts with the same small world: a clinic, two practitioners,
// a member of staff, five patients and 44 products. All ids follow from the
// seed. People have addresses that end in example.com or example.org, and phone
// numbers 555-01xx.
//
// # Time
//
// Codes, tokens, retries, retention and signatures read one [Clock]. A frozen
// clock moves by [Clock.Advance] alone, which makes every webhook delivery that
// falls due on the way before it returns. Nothing in a test has to sleep.
//
// # What makes events
//
// What the integrator does through the API makes no events; what people do on
// the platform does, see [Platform]. The one exception is the API's own:
// clinic_key.activated, on the first request with a valid clinic key.
//
// # Assumptions
//
// The API leaves points open. Where it does, the platform does what integrators
// of such services have met, and says so here:
//
//   - Status codes: 201 for created patients, practitioners, staff, plans and
//     checkouts, 200 otherwise; 401 for tokens, 403 for scopes and plain HTTP, 404
//     for ids, paths and verbs, 422 for values and states, 400 for what is not a
//     JSON object and for a dynamic link without treatment_plan. The bodies are
//     {"error":[…]} with 422, {"error":"…"} with 401 and 403, error and
//     error_description on the token endpoint, and {"status":…,"error":"…"}.
//   - The scope of each endpoint but the dynamic link POST. Creating a plan takes
//     patients:read besides clinic:write. Plans made outside the API take
//     patients:treatment_plan_history. Group scopes grant their members.
//   - Pages hold 25 items, 100 at most; a bigger page[size] counts as 100.
//   - Date filters take a day, "<day", ">day" and "day..day", days being those of
//     the timestamp as it is written.
//   - Array filters of the product search keep products that have every value.
//   - Webhooks: a time-out of 2 seconds; waits of 1, 5, 30 and 60 minutes and 5
//     hours; one row in the delivery log for each event and integration; delivery
//     only while a consent is live that has the event's scope; nothing is resumed
//     when an endpoint is enabled again.
//   - The data of order.placed and product.created is not wrapped; the data of
//     clinic key events names clinic and integration.
//   - A draft on the platform makes treatment_plan.created when it is activated;
//     cancelling makes treatment_plan.updated.
//   - Integrations are active from the start, see [WithPendingIntegration].
//   - A recommendation needs variant_id and units_to_purchase; a cancelled plan
//     cannot be edited; a checkout needs an active plan; a draft has no invitation.
//   - Revoking one token ends the user's whole consent; an unknown token is
//     revoked without complaint.
package dispensarytest
