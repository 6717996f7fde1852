// Package jsonrewrite changes JSON on its way out: it leaves out keys without a value,
// and adds what a client has to tolerate.
package jsonrewrite
