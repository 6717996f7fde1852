// Package behavior lists the points that the API leaves open, and the variants of each.
//
// The fake decides every point by a default, the first variant of its [Choice].
// Each other variant has a constant:
//
//	fake := dispensarytest.New(t, dispensarytest.WithBehavior(behavior.RefreshRotationGrace))
//	err := fake.SetBehavior(behavior.ProbeBeforeEach) // from the next delivery on
//
// A loop over [Choices] runs a test under every variant.
package behavior

import (
	"slices"
	"strings"
	"sync"
)

// Variant is one way to decide a [Choice], as "choice=variant": [ProbeBeforeEach] is
// "probe=before-each". The platform rejects a Variant that is not in [Choices].
type Variant string

// Choice is a point that the API leaves open, with the variants that an integration has to
// work with.
type Choice struct {
	Name     string    // for example "probe"
	Section  string    // of the API
	Why      string    // the open question, and the origin of the default
	Variants []Variant // the first is the default

	// Operations are the operations whose responses a variant can change, for example
	// "patients.create". It is empty if only events and webhooks change.
	Operations []string
}

// Choices returns all choices, sorted by name.
func Choices() []Choice {
	var all []Choice
	for _, e := range entries() {
		c := e.Choice
		c.Variants, c.Operations = slices.Clone(c.Variants), slices.Clone(c.Operations)
		all = append(all, c)
	}
	return all
}

// Name returns the part after the choice: "before-each" of "probe=before-each".
func (v Variant) Name() string {
	_, name, _ := strings.Cut(string(v), "=")
	return name
}

// Meaning describes the platform's behavior under v. It is empty if v is not in [Choices].
func (v Variant) Meaning() string { return meanings()[v] }

var meanings = sync.OnceValue(func() map[Variant]string {
	all := make(map[Variant]string)
	for _, e := range entries() {
		for i, v := range e.Variants {
			all[v] = e.meanings[i]
		}
	}
	return all
})
