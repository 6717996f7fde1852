// Package listen forwards the platform's events to your machine without a tunnel or a relay.
// It polls the platform's event lists and posts each event as a signed webhook to a local
// address.
//
// # Forwarding
//
// [Listener.Run] polls the event lists of one or more clinics every 5 seconds by default. For
// each new event it loads the data, builds the body of the webhook, signs it with a secret of
// your choice and posts it. An event is done once the receiver responds with 200 or 201 and
// the challenge token, as the platform requires of an endpoint. The cursor file stores the
// position in each list.
//
// A forwarded event has the same [webhook.Key] as its webhook. An inbox that receives both
// therefore handles the event once.
//
// # Guarantees
//
// A listener that was stopped resumes from its cursor file and loses no event, provided it
// restarts within the 30 days for which the platform keeps events. An event that the receiver
// does not acknowledge is retried after 1 second, doubling up to 1 minute.
//
// Events are forwarded at least once. The cursor file is written once per second and on
// shutdown, so a killed listener repeats up to one second of events.
//
// Events of one object, such as a patient, arrive in order: a failing event blocks the later
// events of its object and no others. While the address is unreachable, all events wait.
//
// # API usage
//
// Each poll makes one call for each of the five event lists, and each event one more call for
// its data. All calls use your client and its rate limiter.
//
// API sections: "Events", "Webhooks" 2, 3, "Signature header".
package listen
