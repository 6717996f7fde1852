// Package ratelimit keeps requests below the platform's limit: [Limiter] those of one process,
// [Fleet] those of all processes that share a [Store]. Both know priorities.
//
// # Priorities
//
// A person waits > tokens are refreshed > events are handled > lists are reconciled > the
// catalog is copied: see [api.Priority]. A request has the priority of its context, or of an
// option of its call. What this library does by itself has that of its work; a call without
// any counts as one for which a person waits. A refresh that a call waits for has the priority
// of the call.
//
// A request never waits behind one of a lower priority, but for one start in ten: those are
// for lower priorities, the longest waiting first, so that nothing is kept waiting without
// end. Background work is spread over the period, and leaves a part of the limit to people.
//
// # The fleet
//
// The limit is shared out as quotas: so many requests in any period for each process, which
// it keeps to by itself. All quotas together are no more than the limit, so any period holds
// no more than the limit at the platform's door, whatever becomes of the store. A process
// asks for a quota, and gives it up, by exchanging records with the store: what it holds, and
// what it wants by priority. All work out the same shares from the same records. An exchange
// is one round trip, and there is one for 50 requests or more of the fleet where all of the
// limit is used. Where a person has to wait in a process, it asks at once.
//
// When the store is away each process goes on with its quota, after two fifths of a period
// with no more than its share of the limit, and after two periods with exactly that: the limit
// divided by [FleetConfig].Processes, or by the processes that were seen last, if they were
// more. Its background keeps to the share from the beginning, and leaves a tenth of it to
// people. When it is back, processes return within a tenth of a period, each at its own time. A
// store may lose its records, or come back with old ones: each process remembers those of the
// others for two periods.
//
// A 429 with Retry-After holds back every client of every process, as soon as the process
// hears of it from the store. It is the only response that sets a pause.
//
// # What it relies on
//
//   - There are no more processes than FleetConfig.Processes says while the store is away, and
//     none of those that started then did so within 7 minutes of it.
//   - A store that one process cannot reach for two periods is out of reach for all: the others
//     take over the quota of one that is silent for so long.
//   - A request takes at most a second longer to the platform than another.
//   - All that use the limit are in the fleet. What is not, is noticed by the 429.
//
// Clocks of machines need not agree: a period is measured by each process for itself, and the
// age of records by the store.
package ratelimit
