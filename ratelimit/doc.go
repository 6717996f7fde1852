// Package ratelimit keeps requests below the platform's limit: see [Limiter].
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
//   - No priority starves. After the time in which the limit permits 40 requests, the first waiting request of each background
//     priority of a process has the limits of people, and goes before those of its process. In
//     a process that uses its share, the four priorities have at least a tenth of its requests
//     together.
package ratelimit
