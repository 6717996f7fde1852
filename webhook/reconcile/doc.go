// Package reconcile finds events whose webhooks never arrived. It accepts them into the same
// inbox under the same [webhook.Key], so the inbox handles a webhook, its repetition and its
// recovery as one event.
//
//	clinics, err := reconcile.New(reconcile.Config{Environment: environment, Inbox: inbox, List: list, Open: open})
//	err = clinics.Loop(ctx, time.Hour) // until ctx ends
//
// The platform keeps events for 30 days in its event lists. The lists include undeliverable
// events, and events that were never sent because the endpoint was disabled. [Clinics.Loop]
// searches for missed events of all clinics of an environment, once an hour and after each
// outage, within a budget of calls. [Clinics.Run] reconciles one clinic, for a program with a
// scheduler.
//
// # Runs
//
// A run claims a checkpoint beside the events in the inbox, so only one of several replicas
// works at a time. It reads the log of failed deliveries and the event lists, newest first,
// back to the start of the last run, and asks the inbox for unknown events. It accepts these
// events over all groups, oldest first: a patient comes before the plans of the patient. It
// reads the data event by event, because lists have none, unless the log has the data.
//
// A run makes one call per page and at most one per missed event, one after another, through
// the client and its rate limiter. An interrupted run costs only its pages: events in the
// inbox are not read again.
//
// If the platform does not return an event, or the inbox rejects it, the event is a [Gap] and
// blocks no other event. Later runs retry it until the platform drops it after 30 days. An
// event that failed twice is tried last. A run ends early only if
//
//   - the platform responds with 401 or 429,
//   - the inbox is closed, or fails three times in a row,
//   - the context of the run ends, or
//   - three events fail and none has been recovered.
//
// For the order of a webhook and an older recovered event, see [webhook.Work].Order and Stale.
//
// If the events of a clinic arrive only by reconciliation, the platform may have disabled the
// endpoint: see [NoWebhooks]. The report, the stats and the log show it, and so do package
// health and the operations page of package admin.
//
// # Guarantees
//
// Every run finds all events since the last run that the inbox has not seen, even if the
// platform never tried to send them. After a restore from a backup, the last run is that of
// the backup.
//
// # Limits
//
// A run without missed events makes six calls: the delivery log and five lists. With an hourly
// pass and token refreshes, a clinic costs 157 calls a day. Package ratelimit gives
// reconciling at most 92 % of the assumed 5,000 calls in 5 minutes, which permits an hourly
// pass over 8,400 clinics. With more clinics, or a smaller [Config].Budget, a pass takes
// longer than the interval, so passes are rarer and missed events are found later: for 34,000
// clinics every four hours.
//
// # Assumptions
//
// The platform sorts lists by time on request. An unsorted list is read to its end. All
// replicas use one inbox. A run does not rely on the clock of the machine to decide how far
// back it reads, because a wrong clock is a reason for webhooks to fail.
//
// Assumption: webhooks about products, which belong to no clinic, name the integration like
// all others. If the delivery log or the inbox has an event without one, it is accepted
// without.
//
// API sections: "Events", "Webhooks" 4, "Webhook deliveries".
package reconcile
