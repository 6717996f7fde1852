package probe

import (
	"encoding/json"
	"io"
	"time"
)

// Verdict is what a run could tell about a point.
type Verdict string

// The verdicts.
const (
	// Seen: the requests of the finding show how the platform behaves.
	Seen Verdict = "seen"

	// NotObservable: it does not show from outside, or not in this sandbox.
	NotObservable Verdict = "not observable"

	// Ambiguous: what was answered fits no variant, or more than one.
	Ambiguous Verdict = "ambiguous"
)

// Finding is what a run tells about one point that the API leaves open.
type Finding struct {
	Point   string  `json:"point"`
	Verdict Verdict `json:"verdict"`

	// Variant is how the platform behaves, with the fake platform's name for it; empty
	// unless it was seen.
	Variant string `json:"variant,omitempty"`

	// Why says why it was not seen; with [Seen] it is empty, or says what was not.
	Why string `json:"why,omitempty"`

	// RequestIDs are the X-Request-Id of the answers that show it, in the order of the
	// requests.
	RequestIDs []string `json:"request_ids,omitempty"`
}

// Record is one that a run created, and cannot remove.
type Record struct {
	Kind string `json:"kind"` // "patient" or "treatment_plan"
	ID   string `json:"id"`
}

// Report is what a run found, did and left behind. It holds no secret and nothing of any
// patient but the ids of those it made up.
type Report struct {
	Environment string    `json:"environment"` // "us/sandbox"
	StartedAt   time.Time `json:"started_at"`
	Requests    int       `json:"requests"`

	// Marker is in the name of every patient of the run, so that a search finds those
	// whose answer was lost, too.
	Marker string `json:"marker"`

	// Findings are one for each point, sorted by name.
	Findings []Finding `json:"findings"`

	// Created are the records that stay.
	Created []Record `json:"created,omitempty"`
}

// Behaviors returns what was seen, as "point=variant", which is the form of
// dispensarytest.Behavior, sorted.
func (r Report) Behaviors() []string {
	var all []string
	for _, f := range r.Findings {
		if f.Verdict == Seen {
			all = append(all, f.Point+"="+f.Variant)
		}
	}
	return all
}

// fileVersion is that of the file of behaviors.
const fileVersion = 1

// WriteBehaviors writes what was seen as a file that dispensarytest.WithBehaviorsFile
// and "dispensary fake --behaviors" read.
func (r Report) WriteBehaviors(w io.Writer) error {
	file := struct {
		Version   int      `json:"version"`
		Behaviors []string `json:"behaviors"`
	}{fileVersion, append([]string{}, r.Behaviors()...)}
	content, err := json.MarshalIndent(file, "", "  ")
	if err == nil {
		_, err = w.Write(append(content, '\n'))
	}
	return err
}
