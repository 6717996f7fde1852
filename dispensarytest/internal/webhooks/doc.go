// Package webhooks delivers events to the integrator's endpoint: the schedule, the
// requests and their signatures, the delivery log, and what faults do to deliveries.
package webhooks
