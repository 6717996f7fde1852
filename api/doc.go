// Package api is the vocabulary of every other package of this module: what a call can fail with ([Error] and its sentinels), what a list
// answers ([Page], [Meta]), how a field is left out, cleared or set in an
// update ([Optional]), the scalar types of the wire ([Date], [Decimal],
// [Timestamp], [Bool], [Int], [Text]), the platform's sites
// ([Environment], [Site], [Directory]), and what a call is authorized with
// ([Secret], [AccessToken], [TokenSource]). Package observe beside it has what
// observers receive.
//
// It depends on nothing but the standard library. The root package aliases the
// names that callers use most, so that many programs never import it.
//
// # Lenient in, strict out
//
// The platform writes some scalars in more than one way: 0 for false, "true"
// for true, "10" for 10, a date where a timestamp is meant. The scalar types
// here read every one of these forms and write only the canonical one. None of
// them ever makes a response undecodable because of a form that was not seen
// before, unless the value would have to be guessed.
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
