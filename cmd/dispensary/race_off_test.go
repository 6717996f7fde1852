//go:build !race

package main

// underRace tells that the race detector is at work.
const underRace = false
