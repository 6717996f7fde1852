// Package ratelimit keeps requests below the platform's limit: [Limiter] those of one process,
// and [Fleet] those of all processes that share a [Store].
//
// # Priorities
//
// A person waits > tokens are refreshed > events are handled > lists are reconciled > the
// catalog is copied: see [api.Priority]. A request has the priority of its context, or of an
// option of its call. The library's own work has its priority by default. Any other call counts
// as one for which a person waits, and so does a refresh that such a call needs.
//
//   - Requests for which a person waits start while the limit permits one, in bursts too.
//   - Background requests start below 98, 95, 92 and 90 percent of the limit, in the order of
//     their priorities. In each thirtieth of the period they start below a thirtieth of that, so
//     they are spread over the period.
//   - No priority starves. After the time in which the limit permits 40 requests, times
//     [FleetConfig].Processes for a fleet, the first waiting request of each background
//     priority of a process has the limits of people, and goes before those of its process. In
//     a process that uses its share, the four priorities have at least a tenth of its requests
//     together.
//
// # The fleet
//
// A fleet asks the store for each start, and the store records it if the last period has room
// for it. Requests that wait together share a call. A process that has to wait asks again when
// there may be room, but not more often than about once in the time in which its share of
// the limit permits a request. Processes may end at any time, without Close, and others may
// start: what counts is the requests that were sent.
//
// While the store is reachable and keeps its records, no period at the platform contains more
// requests than the limit. The margin for that is a second for different travel times to the
// platform, and [FleetConfig].Timeout for the response of the store.
//
// The store counts as away if it fails, or does not respond within FleetConfig.Timeout. Each
// process then keeps to its share, the limit divided by FleetConfig.Processes, in which its
// own requests of the last period count. Only the requests that wait at the time of the failure
// pay the timeout. After about five timeouts, and again after each failure, the process asks the store
// in the background, if there are requests. When the store is back, the process records its
// requests without the store, so they count for all.
//
// # Bounds around an outage
//
// These bounds assume that there are no more processes than FleetConfig.Processes:
//
//   - A period that contains the beginning or the end of an outage contains at most twice the
//     limit: the store counts one part, and each process counts its share. If no process has
//     sent more than its share, a period that contains the beginning contains no more than the
//     limit.
//   - A period within an outage contains no more than the limit.
//   - If the store loses its records, a period that contains this moment contains at most twice
//     the limit, and at most three times the limit if that is the beginning or the end of an
//     outage.
//   - All other periods contain no more than the limit, beginning with the first period after all
//     processes have returned.
//
// A 429 with Retry-After holds back every client of every process: the process that received it
// stores the pause, and the others learn of it with their next request. It is the only
// response that sets a pause.
//
// Clocks of machines may differ: a [Store] uses its own clock.
package ratelimit
