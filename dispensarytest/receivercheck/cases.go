package receivercheck

import "slices"

// section is a group of cases about one thing.
type section struct {
	name  string
	cases []testCase
}

// testCase is one thing that an endpoint must or must not do.
type testCase struct {
	name  string
	needs field // "" where it needs none
	run   func(*checker)

	// reviews says that the case sends nothing and reviews the exchanges of the
	// others.
	reviews bool

	// Shown with a failure: what the mistake does in production, and what to do.
	consequence, fix string
}

// sections are in the order in which they run: Always reviews the exchanges of all
// others.
func sections() []section {
	return []section{
		{"Signature", slices.Concat(signatureCases(), timestampCases(), rotationCases())},
		{"Challenge", challengeCases()},
		{"Events", eventCases()},
		{"Delivery", slices.Concat(deliveryCases(), outageCases())},
		{"Bodies", bodyCases()},
		{"Always", alwaysCases()},
	}
}
