package dispensarytest

import (
	"slices"
	"testing"
)

// Matrix runs a test under every reading of the points the API leaves open: once
// with the defaults, and then with one silence at a time read in another way. What
// passes does not depend on a reading. Each run is a subtest that makes its own
// platform with the option it is given:
//
//	dispensarytest.Matrix(t, func(t *testing.T, reading dispensarytest.Option) {
//		fake := dispensarytest.New(t, reading)
//		…
//	})
//
// Names narrow it to some silences. A test that has to know which reading it runs
// under asks [Server.Readings].
func Matrix(t *testing.T, run func(t *testing.T, reading Option), names ...string) {
	t.Helper()
	for _, name := range names {
		if !slices.ContainsFunc(silences(), func(s Silence) bool { return s.Name == name }) {
			t.Errorf("dispensarytest: Matrix: there is no open point %q", name)
		}
	}
	t.Run("defaults", func(t *testing.T) { run(t, func(*settings) error { return nil }) })
	for _, s := range Silences() {
		if len(names) > 0 && !slices.Contains(names, s.Name) {
			continue
		}
		for _, r := range s.Readings[1:] {
			t.Run(s.Name+"="+r.Name, func(t *testing.T) { run(t, WithReading(s.Name, r.Name)) })
		}
	}
}
