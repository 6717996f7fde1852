// Package reconcile finds the events whose webhooks never arrived, and accepts
// them into the same inbox under the same [webhook.Key], so that webhook,
// repetition and recovery are one event.
//
// The platform keeps events for 30 days in its event lists, including those that it could not
// deliver and those that it never sent because the endpoint was disabled. [Clinics.Loop] looks
// for missed events of all clinics of an environment once an hour and after each outage, within
// a budget of calls. [Clinics.Run] reconciles one clinic, for a program with a scheduler.
//
// # What a run does
//
// A run claims the checkpoint, which is next to the events in the inbox: of several
// replicas one works at a time. It reads the log of failed deliveries and the lists
// of events, the newest first, back to where the last run began, and asks the inbox
// which of them it has not seen. What was missed is accepted then, the oldest
// first, over all groups: a patient comes before their plan. The data is read event
// by event, as lists have none, unless the log has it.
//
// So a run takes as many calls as there are pages, and at most one more for each
// missed event. They are made one after the other, through the client, whose rate
// limiter they wait for. A run that is broken off, by an error, a restart or the
// end of its context, costs nothing but the pages: what the inbox has seen is not
// read again.
//
// An event that the platform does not return, or that the inbox rejects, is a [Gap] and blocks
// no other event. The checkpoint remembers it, and later runs retry it until the platform drops
// it after 30 days. An event that failed twice is tried last. A run ends early only if the
// platform responds with 401 or 429, if the inbox is closed or fails three times in a row, if its
// context ends, or if three events fail and none has been recovered.
//
// Order is kept as far as there is any: see [webhook.Work].Order and Stale for what
// a webhook that came in time and an older event that was recovered are to each
// other.
//
// # Short runs
//
// A run over one of many clinics is short where nothing says that an event is missing: it
// reads the log of failed deliveries, one call, retries what failed before, and leaves out the
// lists. It is whole, and reads them, if
//
//   - the log has an event that the inbox has not seen, or cannot be read,
//   - there was an outage, see [Clinics.RunAfterOutage], or no replica has reconciled for two
//     intervals, and the clinic has had no whole run since,
//   - the last run did not read all lists, or there was none, or none with an integration or a
//     group that there is now,
//   - a run has recovered events less than WholeEvery ago, and no webhook has arrived since,
//   - the last whole run was [Config].WholeEvery ago, a day by default.
//
// [Clinics.Run] always makes a whole run.
//
// If the events of a clinic arrive only by reconciliation, the platform may have disabled the
// endpoint: see [NoWebhooks]. The report, the stats and the log show it, and so do package health
// and the operations page of package admin.
//
// A webhook that failed is found by the next run, as by a whole one. What the platform never
// tried to send, outside of an outage that was seen, is not in the log: it is found after
// WholeEvery and the time of a pass, no longer after a pass. So is what an inbox has lost that
// was restored from a backup, unless [Clinics.Trigger] is called.
//
// With a pass an hour, and whole runs of a log and five lists that fit on a page each, a clinic
// takes 24 + 5 calls a day, one for its integrations, and 12 that refresh the token it is read
// with, which ends after two hours: 42. Where all runs are whole it takes 24·6 + 1 + 12 = 157.
// The 5,000 calls in five minutes that the platform is assumed to take, 1,440,000 a day, are
// enough for an hourly pass over 34,000 clinics, and over 9,100. A pass over 100,000 clinics
// takes 3 hours 20 minutes of all calls where it is short, and 11 hours 40 minutes where it is
// whole: there is one every 5 hours 45 minutes, the whole runs of the day included, and one
// every 12 hours 30 minutes.
//
// A clinic from which nothing has come for long is not taken as evidence. No inbox knows when
// the last event of a clinic came, and what is usual for one includes its nights and weekends:
// only what lasts longer than a day would mean something, and by then there was a whole run.
//
// # What it relies on
//
// Lists are sorted by time where that is asked for; one that is not is read to its
// end. Every replica's checkpoint and events are in one inbox. It does not rely on
// the clock of the machine to decide how far back it looks, because a wrong clock is a
// reason for webhooks to fail.
//
// Short runs rely on the log: a failed attempt is in it within [Config].Overlap.
//
// Assumption: webhooks about products, which belong to no clinic, name the
// integration like all others. Where the log of deliveries, or the inbox, shows
// that an event came without, it is taken as that.
//
// API sections: "Events", "Webhooks" 4, "Webhook deliveries".
package reconcile
