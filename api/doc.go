// Package api defines the types that all other packages of this module share. Most programs
// need only the aliases in the root package. Import this package for the rest:
//
//   - [Error] and the sentinels describe a failed call. [ProblemOf] turns an error into a
//     response for your user.
//   - [List], [Page] and [Meta] describe a list.
//   - [Optional] is a field of an update: left out, cleared or set.
//   - [Date], [Decimal] and [Timestamp] are the scalar types of the API.
//   - [Environment] and [Site] locate the platform.
//   - [Secret], [AccessToken] and [TokenSource] authorize a call.
//
// This package depends on the standard library and a few small internal packages. Package
// observe contains the types for observers.
//
// # Decoding
//
// The platform writes some scalars in more than one form. The client reads every form and
// writes the canonical one:
//   - A string field reads a number or a boolean too. An ID may be a number.
//   - A bool field reads true, false, 1 and 0, with or without quotes.
//   - An int or float64 field reads a number in quotes too, and an int field 10.0.
//   - null and "" read as the zero value.
//   - [Date], [Decimal] and [Timestamp] list their own forms.
//
// A field that cannot be decoded is zero. A list leaves out null and any element that cannot
// be decoded. The client's logger and Observer.InvalidField of package observe receive the
// operation, the path of the field and the ID of its record. For the data of an event, see
// events.Typed.
//
// encoding/json alone decodes the models strictly.
//
// # Errors
//
// A response fails with [ErrBadResponse] if it is not JSON, if its object, list or meta is
// missing, or if a single record has no ID.
//
// # Privacy
//
// No text from this package (Error, String, GoString, Format, LogValue, MarshalJSON of
// secrets) contains a token, a secret, a query string or a body. No printer shows a [Secret],
// wherever it is stored.
//
// # Patient data
//
// Types with patient data print only their type and ID with fmt and as a log attribute. These
// show all fields:
//   - fmt, for a value in an unexported field of your struct, because fmt calls no methods
//     there. A pointer hides the value from %v only, not from %s and %q. Export the field, or
//     add a Format method to your struct.
//   - A dump by reflection, such as the difference in a failed testify assertion.
//   - An encoder: encoding/json, encoding/xml, encoding/gob, and slog's JSON handler for the
//     elements of a slice, a map or a struct.
package api
