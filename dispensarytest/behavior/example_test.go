package behavior_test

import (
	"fmt"
	"slices"

	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
)

// List the points that the API leaves open, and start a fake with another variant of one of
// them.
func ExampleChoices() {
	for _, choice := range behavior.Choices() {
		if choice.Name == "refresh-rotation" {
			fmt.Println(choice.Why)
			for _, v := range choice.Variants {
				fmt.Println("-", v.Name()+":", v.Meaning())
			}
		}
	}
	fake, err := dispensarytest.Start(dispensarytest.WithInMemory(), dispensarytest.WithBehavior(behavior.RefreshRotationGrace))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = fake.Close() }()
	fmt.Println(slices.Contains(fake.Behaviors(), behavior.RefreshRotationGrace))
	// Output:
	// The spec does not specify whether a refresh returns a new refresh token. Integrators observe a grace period.
	// - none: the refresh token stays the same
	// - grace: a new one. The old one stays valid until the first use of the new access token
	// - immediate: a new one. The old one becomes invalid at once
	// true
}
