// Package histories contains only tests. Several processes use one store concurrently. Meanwhile
// they are killed and paused, and their connections are cut. They record the start, the end and
// the result of each call. github.com/anishathalye/porcupine then checks linearizability: whether
// a store that runs one call at a time, each between its start and its end, could return the same
// results. A call with an unknown outcome may have run at any later time or never.
package histories
