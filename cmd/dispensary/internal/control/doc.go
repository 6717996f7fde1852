// Package control is the HTTP control API of a fake platform. It lets a console, a CI script
// or tests in another language set up the platform, act as its users and check its requests.
//
//	api := control.New(fake, control.Options{})
//	http.Handle("/control/", http.StripPrefix("/control", api))
//
// The handler serves its contract, an OpenAPI 3.1 document, at openapi.yaml. Go tests call
// [dispensarytest.Server], which offers more.
//
//	GET  /settings                  returns URLs, credentials and accounts
//	POST /patients/<id>/orders      places an order as a patient
//	POST /clock/advance             advances the clock and sends due deliveries
//	PUT  /webhook                   registers the webhook endpoint
//	POST /faults                    makes requests or deliveries fail
//	POST /reset                     restores the initial state
//
// # Values
//
// Field names are the names of the Go fields in snake case. A time is RFC 3339, or null if the
// Go value is zero. An amount of money is a decimal string. A request with an unknown field is
// rejected, and the error lists the known fields.
//
// # Access
//
// The API accepts only callers on the same machine that use a loopback name. Web pages cannot
// reach it with a cross-origin request, a form or a name that resolves to this machine. A
// request that changes state needs the content type application/json.
package control
