// Package histories holds tests only. Several processes use one store at a time, while they
// are killed and paused and their connections are cut, and note when each call began and
// what it returned when. Whether the store could have done one call after the other to
// answer so, each at a moment between its beginning and its end, is what
// github.com/anishathalye/porcupine finds out. Of a call whose outcome is not known it
// assumes that it was done at any time later, or never.
package histories
