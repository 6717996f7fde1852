// Package events reads the platform's events: their types, the envelope around them and the
// data of the objects that they concern. It also lists past events and webhook deliveries.
//
//	event, err := events.Parse(body)
//	…
//	order, err := events.As[clinic.Order](event)
//	…
//	order.ID                 // the event's ID
//	order.Object.OrderNumber // the order
//	order.Data               // the data as it arrived
//
// Programs that receive webhooks need neither call: the Router of package webhook passes the
// typed event to your function.
//
// # Usage
//
// [Parse] identifies the event in a webhook body. It checks that the body is JSON and needs
// only an ID and a type, so a field that the platform adds or changes never makes an event
// unreadable. It does not decode the data. [As] decodes the data into the object.
//
// [Service.List] returns past events, for example events missed while webhooks failed.
// [Service.Get] returns one event with its data. Both calls need the root client.
//
// # Guarantees
//
// The platform keeps events for 30 days. It creates none for the calls of an application. A
// clinic with several integrations receives the same event once for each: ID and IntegrationID
// together identify it. The platform attempts to send events in order, without a guarantee. An
// event may arrive twice.
//
// # Privacy
//
// An [Event] or a [Typed] event prints as its type and ID, also in logs. See "Patient data" in
// package api for the exceptions. Errors contain type, ID and field, but never data.
//
// API section: "Events".
package events
