//go:build !race

package sqlstore_test

// underRace tells that the race detector is at work.
const underRace = false
