// Package memhttp carries HTTP requests to handlers in the same process without a
// socket, with the time-outs, cancellation and streaming of a connection, and serves
// TLS and plain HTTP on one port. It blocks on nothing but channels, condition
// variables and the time package, so that it works inside testing/synctest.
package memhttp
