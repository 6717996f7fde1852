// Package engine is what the authors of an engine meet: an inbox that stores the
// events it accepts and handles them. Programs that receive webhooks need none of
// it; they open an engine, such as package sqlinbox.
package engine
