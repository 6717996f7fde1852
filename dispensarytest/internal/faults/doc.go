// Package faults holds the faults that are set, and decides which request or delivery
// meets one.
package faults
