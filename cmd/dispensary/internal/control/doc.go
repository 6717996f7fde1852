// Package control lets programs in any language drive a platform of package
// dispensarytest: a JSON API with what a console, a script of CI, or the tests of an
// integration in another language need.
//
//	api := control.New(fake, control.Options{})
//	http.Handle("/control/", http.StripPrefix("/control", api))
//
// Its contract, an OpenAPI 3.1 document, is served at openapi.yaml. Go tests use the
// methods of [dispensarytest.Server], of which there are more.
//
//	GET  /settings                  what an integrator has to know
//	POST /patients/<id>/orders      a patient orders
//	POST /clock/advance             moves the clock, and makes what fell due
//	PUT  /webhook                   registers the webhook endpoint
//	POST /faults                    makes requests or deliveries fail
//	POST /reset                     takes the platform back to how it started
//
// Field names are those of the Go structs in snake case. Times are RFC 3339, and
// null where the Go value is zero; amounts of money are decimal strings. A field
// that an operation does not know is refused, with the nearest that it does.
//
// # Who may call
//
// The API answers only callers on the same machine, under a loopback name, so
// that no web page reaches it: not by a request across origins, not by a name
// that resolves to this machine, and not by a form. Whatever changes something
// takes the content type application/json.
package control
