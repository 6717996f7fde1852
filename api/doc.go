// Package api is the vocabulary of every other package of this module: what a call can fail with ([Error] and its sentinels), what a list
// answers ([Page], [Meta]), how a field is left out, cleared or set in an
// update ([Optional]), the scalar types of the wire ([Date], [Decimal],
// [Timestamp]), the platform's sites
// ([Environment], [Site]), and what a call is authorized with
// ([Secret], [AccessToken], [TokenSource]). Package observe beside it has what
// observers receive.
//
// Beside small packages below internal, it depends on the standard library only. The root
// package aliases the names that most programs use.
//
// # Lenient in, strict out
//
// The platform writes some scalars in more than one way. The client reads all of them and
// writes the canonical one:
//   - A string field reads a number or a boolean too. An id may be a number.
//   - A bool field reads true, false, 1 and 0, also in quotes.
//   - An int or float64 field reads a number in quotes too, and an int field 10.0.
//   - null and "" read as the zero value.
//   - [Date], [Decimal] and [Timestamp] list their own forms.
//
// A field that cannot be decoded is zero. A list leaves out null, and an element that cannot
// be decoded. Package observe (Observer.InvalidField) and the client's logger receive the
// operation, the path of the field and the id of its record. For the data of an event, see
// events.Typed. A response fails with [ErrBadResponse] if it is not JSON, if it lacks its
// object, list or meta, or if a single record has no id.
//
// encoding/json alone reads the models strictly.
//
// # Nothing leaks
//
// No text made here (Error, String, GoString, Format, LogValue, MarshalJSON of
// secrets) holds a token, a secret, a query string or a body. No printer shows a
// [Secret], wherever it is stored.
//
// # Patient data
//
// Types with patient data print their type and id with fmt, and as a log attribute.
// These show all fields:
//   - fmt, for a value in an unexported field of your struct: fmt calls no methods there.
//     A pointer hides the value from %v only, not from %s and %q. Export the field, or
//     give your struct a Format method.
//   - A dump by reflection, such as the difference of a failed testify assertion.
//   - An encoder: encoding/json, encoding/xml, encoding/gob, and slog's JSON handler for
//     the elements of a slice, a map or a struct.
package api
