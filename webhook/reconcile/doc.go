// Package reconcile finds the events whose webhooks never arrived, and accepts
// them into the same inbox under the same [webhook.Key], so that webhook,
// repetition and recovery are one event.
//
// What the platform could not deliver, or did not try to while the address was
// switched off, stays in its event lists for 30 days. [Reconciler.Loop] looks for
// it once an hour and after each outage; [Reconciler.Run] is for a scheduler. [Clinics]
// does it for all clinics of an environment, in one loop and under a budget. With
// River, riverinbox.Inbox.PeriodicReconcile makes a job of it.
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
// An event that the inbox refuses, while it takes others, is a [Gap]. It keeps no
// other from being recovered, and every run tries it again, as long as the platform
// has it.
//
// Order is kept as far as there is any: see [webhook.Work].Order and Stale for what
// a webhook that came in time and an older event that was recovered are to each
// other.
//
// # What it relies on
//
// Lists are sorted by time where that is asked for; one that is not is read to its
// end. Every replica's checkpoint and events are in one inbox. It does not rely on
// the clock of the machine to decide what it looks at, because a wrong clock is a
// reason for webhooks to fail.
//
// Assumption: webhooks about products, which belong to no clinic, name the
// integration like all others. Where the log of deliveries, or the inbox, shows
// that an event came without, it is taken as that.
//
// API sections: "Events", "Webhooks" 4, "Webhook deliveries".
package reconcile
