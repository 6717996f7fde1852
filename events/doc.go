// Package events has what the platform reports about things that happened on
// it: the types of event, the envelope they arrive in, and the objects they
// carry.
//
// An event is read in two steps, because they have different needs. [Parse]
// takes a webhook body in any envelope that is in use and finds out which event
// it is; it checks that the body is JSON, builds nothing from the bulk of it,
// and asks for no more than an id and a type, so that no field the platform may
// add or change can make an event unacceptable. [As] turns the data of an event
// into the object it concerns:
//
//	event, err := events.Parse(body)
//	…
//	order, err := events.As[clinic.Order](event)
//	…
//	order.ID                 // the event's id
//	order.Object.OrderNumber // the order
//	order.Data               // the data as it arrived
//
// Programs that receive webhooks do neither by hand: package webhook's Router
// hands them the typed event.
//
// # What the platform promises, and what it does not
//
// Events are kept for 30 days. None is created for what an application does
// through the API itself. A clinic that has several integrations gets the same
// event once for each: together with its id, an event's IntegrationID says
// them apart. Order is attempted, not guaranteed; an event may come twice.
//
// # Nothing leaks
//
// An [Event] or a [Typed] event prints as its type and id, in logs too. See "Patient
// data" in package api for the exceptions. Errors name type, id and field, and never
// repeat data.
//
// API section: "Events".
package events
