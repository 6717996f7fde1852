// Package ratelimit keeps requests below the platform's rate limit. [Limiter] limits one
// process. [Fleet] limits all processes that share a [Store]. Package pgstore is one in PostgreSQL.
//
// # Priorities
//
// A request has the priority of its context or of its call's options. By default the library's
// own work has the priority of that work. All other calls are interactive, and so are token
// refreshes that they wait for. The priorities, highest first:
//
//  1. interactive: a person waits
//  2. refresh: tokens are refreshed
//  3. event: events are handled
//  4. reconcile: lists are reconciled
//  5. catalog: the catalog is copied
//
// See [api.Priority]. Requests start by these rules:
//
//   - Interactive requests start as long as the limit permits one, even in bursts.
//   - Background requests (priorities 2 to 5) start only below 98, 95, 92 and 90 percent of
//     the limit. They are spread: in each thirtieth of the period they start only below a
//     thirtieth of that part.
//   - No priority starves. If the first request of a background priority has waited for the
//     time in which the limit permits 40 requests (times [FleetConfig].Processes for a
//     fleet), it gets the limits of interactive requests and starts before the other
//     requests of its process. In a process that uses its whole share, the four background
//     priorities together get at least a tenth of the requests.
//
// # The fleet
//
// A fleet asks the store for each start. The store records the start if the last period has
// room. Requests that wait together share a call. If a process has to wait, it asks again when
// there may be room, but at most about once in the time in which its share of the limit
// permits one request. Only sent requests count, so processes may start at any time and end at
// any time without Close.
//
// While the store is available and keeps its records, no period at the platform contains more
// requests than the limit. The margin is 1 second for differences in transfer time, and
// [FleetConfig].Timeout for the store's response.
//
// If the store fails, or does not respond within FleetConfig.Timeout, it counts as
// unavailable. Each process then limits itself to its share: the limit divided by
// FleetConfig.Processes. Its own requests of the last period count. The failure delays only
// the requests that already wait, by the timeout. After about three timeouts, and again after
// each failure, the process asks the store in the background if it has requests. Once the
// store responds, the process records the requests that it has sent without the store, so they
// count for all processes.
//
// # Limits around an outage
//
// These limits require that at most FleetConfig.Processes processes run:
//
//   - A period that contains the start or end of an outage contains at most twice the limit:
//     the store counts one part, and each process counts its share. If no process has sent
//     more than its share, a period that contains the start of an outage contains at most
//     the limit.
//   - A period within an outage contains at most the limit.
//   - If the store loses its records, a period that contains this moment contains at most
//     twice the limit. If it is also the start or end of an outage, the period contains at
//     most three times the limit.
//   - All other periods contain at most the limit, from the first period after all processes
//     have returned to the store.
//
// # Pauses and clocks
//
// A 429 with Retry-After pauses every client of every process. The process that receives it
// stores the pause, and the others load it with their next request. No other response sets a
// pause.
//
// Clocks of machines may differ, because a [Store] uses its own clock.
package ratelimit
