// Package dispensaryotel makes OpenTelemetry spans and metrics of the client's
// calls, of token refreshes, of webhooks and of what becomes of their events.
//
//	telemetry, err := dispensaryotel.New(dispensaryotel.Config{}) // the global providers
//	app, err := integration.Open(ctx, config, integration.Setup{Telemetry: telemetry, …})
//
// observes all parts of package integration. A program that creates its parts itself observes
// each of them:
//
//	client, err := dispensary.New(site, dispensary.WithObserver(telemetry.Calls()), …)
//	app, err := oauth.New(oauth.Config{Observers: []observe.Observer{telemetry.Calls()}, …})
//	conns, err := tokens.NewConnections(tokens.Config{Observers: []tokens.Observer{telemetry.Tokens()}, …})
//	inbox, err := sqlinbox.Open("inbox.db", sqlinbox.Config{Work: telemetry.Work(webhook.Work{Handle: router.Dispatch}), …})
//	handler, err := webhook.NewHandler(telemetry.Webhook(webhook.HandlerConfig{Inbox: inbox, …}))
//	clinics, err := reconcile.New(telemetry.Reconcile(reconcile.Config{Inbox: inbox, …}))
//	stop, err := telemetry.WatchInbox("orders", inbox)
//
// The program's own observers keep working. With package accounts, set Options to a function that
// returns WithObserver(telemetry.Calls()).
//
// # Spans
//
//	patients.get                      a call, with all its attempts and waits
//	├ oauth.refresh                   if its token had to be replaced
//	│ └ oauth.token                   the call for it
//	│   └ POST /oauth/token
//	├ GET /clinic/patients/{id}       an attempt
//	└ GET /clinic/patients/{id}       the next: http.request.resend_count, dispensary.retry.reason
//
//	receive webhook                   a request
//	└ accept order.placed             storing its event in the inbox
//
//	process order.placed              an attempt to handle the event, linked to accept
//	└ patients.get                    what the handler does
//
// # Metrics
//
// Durations are histograms in seconds, and count what they measure.
//
//	dispensary.client.call.duration       by operation, environment, status, error.type
//	http.client.request.duration          each attempt, by method, route, host, status, error.type
//	dispensary.client.retries             by operation, environment, reason
//	dispensary.client.limiter.wait        by operation, environment
//	dispensary.client.invalid_fields      fields that could not be decoded, by operation, environment
//	dispensary.oauth.refresh.duration     by environment, outcome, background
//	dispensary.oauth.events               by environment, event, reason
//	dispensary.webhook.request.duration   by outcome, status, environment, event type, error.type
//	messaging.client.operation.duration   accepting, by environment, event type, outcome, error.type
//	messaging.process.duration            attempts, by environment, event type, result, error.type
//	dispensary.inbox.wait                 from arrival to the first attempt
//	dispensary.inbox.dead_letters         by environment, event type, error.type
//	dispensary.reconcile.run.duration     each search for missed webhooks, by environment, short, error.type
//	dispensary.reconcile.events           events without a webhook, by environment, result: recovered, lost
//	dispensary.inbox.events               held now, by inbox, state: see [Telemetry.WatchInbox]
//	dispensary.inbox.age                  of the oldest that is not handled yet, by inbox
//
// Names are those of the semantic conventions 1.43 where there are some. A
// transport that also creates http.client.request.duration and client spans, such as the
// one of otelhttp, reports each attempt twice.
//
// # What they hold
//
// A list of attributes, and nothing that is not on it: attributes are made in one
// internal package, of keys that are written down there, and no other code of this
// module can make one. There is no address, query or header, no body, no text of
// an error, no token or secret, no patient and no user in it; of the ids, only those
// of requests and events, on spans alone. So url.full, which the conventions ask
// for, is left out, and the route template replaces it. Baggage is not
// written. No request to the platform has a traceparent or baggage header.
//
// # What it costs
//
// A client without an observer pays nothing. An observed call, or an attempt to handle an event,
// costs about 3 µs with providers that record nothing and 10 µs with a recorder.
package dispensaryotel
