//go:build !race

package testsize

// Race reports that the race detector is on.
const Race = false
