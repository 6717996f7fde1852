// Package dispensaryotel reports a program's use of the dispensary API as OpenTelemetry spans
// and metrics. It covers the client's calls, token refreshes, webhooks and the handling of
// events.
//
//	telemetry, err := dispensaryotel.New(dispensaryotel.Config{}) // the global providers
//	app, err := integration.Open(ctx, config, integration.Setup{Telemetry: telemetry, …})
//
// # Usage
//
// Setup.Telemetry of package integration, as above, observes all parts of an integration. If
// your program creates the parts itself, observe each of them:
//
//	client, err := dispensary.New(site, dispensary.WithObserver(telemetry.Calls()), …)
//	app, err := oauth.New(oauth.Config{Observers: []observe.Observer{telemetry.Calls()}, …})
//	conns, err := tokens.NewConnections(tokens.Config{Observers: []tokens.Observer{telemetry.Tokens()}, …})
//	inbox, err := sqlinbox.Open("inbox.db", sqlinbox.Config{Work: telemetry.Work(webhook.Work{Handle: router.Dispatch}), …})
//	handler, err := webhook.NewHandler(telemetry.Webhook(webhook.HandlerConfig{Inbox: inbox, …}))
//	clinics, err := reconcile.New(telemetry.Reconcile(reconcile.Config{Inbox: inbox, …}))
//	stop, err := telemetry.WatchInbox("orders", inbox)
//
// Your own observers keep working. With package accounts, set Options to a function that
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
//	└ patients.get                    a call of the handler
//
// # Metrics
//
// Durations are histograms in seconds. They also count their events.
//
//	dispensary.client.call.duration       by operation, environment, status, error.type
//	http.client.request.duration          each attempt, by method, route, host, status, error.type
//	dispensary.client.retries             by operation, environment, reason
//	dispensary.client.limiter.wait        by operation, environment
//	dispensary.client.invalid_fields      fields that cannot be decoded, by operation, environment
//	dispensary.oauth.refresh.duration     by environment, outcome, background
//	dispensary.oauth.events               by environment, event, reason
//	dispensary.webhook.request.duration   by outcome, status, environment, event type, error.type
//	messaging.client.operation.duration   accepting, by environment, event type, outcome, error.type
//	messaging.process.duration            attempts, by environment, event type, result, error.type
//	dispensary.inbox.wait                 from arrival to the first attempt
//	dispensary.inbox.dead_letters         by environment, event type, error.type
//	dispensary.reconcile.run.duration     each search for missed webhooks, by environment, error.type
//	dispensary.reconcile.events           events without a webhook, by environment, result: recovered, lost
//	dispensary.inbox.events               stored now, by inbox, state: see [Telemetry.WatchInbox]
//	dispensary.inbox.age                  of the oldest unhandled event, by inbox
//
// Names follow the semantic conventions 1.43 if these define one. A transport that also
// creates http.client.request.duration and client spans, such as otelhttp, reports each
// attempt twice.
//
// # Limits
//
// A client without an observer has no cost. An observed call, or an observed attempt to handle
// an event, costs about 3 µs with providers that record nothing and 10 µs with a recorder.
//
// # Privacy
//
// Signals contain only attributes from a fixed list of keys in one internal package. No other
// code of this module can create an attribute. They contain no URL, query, header, body, error
// text, token, secret, patient or user. The only IDs are those of requests and events, on
// spans alone. The conventions require url.full, but the route template replaces it. Baggage
// is not written. No request to the platform has a traceparent or baggage header.
package dispensaryotel
