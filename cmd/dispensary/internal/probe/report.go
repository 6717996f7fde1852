package probe

import (
	"encoding/json"
	"io"
	"time"
)

// Verdict is the result of observing a point.
type Verdict string

// The verdicts.
const (
	// Seen: the requests of the finding show the behavior.
	Seen Verdict = "seen"

	// NotObservable: requests cannot show the behavior at all, or not in this sandbox.
	NotObservable Verdict = "not observable"

	// Ambiguous: the responses match no variant, or more than one.
	Ambiguous Verdict = "ambiguous"
)

// Finding is the result for one undocumented behavior of the API.
type Finding struct {
	Point   string  `json:"point"`
	Verdict Verdict `json:"verdict"`

	// Variant is the observed behavior, by its name in the fake platform. It is empty unless
	// Verdict is [Seen].
	Variant string `json:"variant,omitempty"`

	// Why is the reason for a verdict other than [Seen]. With [Seen] it is empty, a measured
	// time, or the unobserved part.
	Why string `json:"why,omitempty"`

	// RequestIDs are the X-Request-Id values of the deciding responses, in order of the requests.
	RequestIDs []string `json:"request_ids,omitempty"`
}

// Record is a permanent record that a run created.
type Record struct {
	Kind string `json:"kind"` // "patient" or "treatment_plan"
	ID   string `json:"id"`
}

// Report is the result of a run. It contains no secrets. Its only patient data are the ids and
// the marker of created patients.
type Report struct {
	Environment string    `json:"environment"` // "us/sandbox"
	StartedAt   time.Time `json:"started_at"`
	Requests    int       `json:"requests"`

	// Marker is part of the name of each created patient. A search for it also finds patients
	// whose response was lost.
	Marker string `json:"marker"`

	// Findings has one entry for each point, sorted by name.
	Findings []Finding `json:"findings"`

	// Created lists the created records.
	Created []Record `json:"created,omitempty"`
}

// Behaviors returns the points with verdict [Seen] as sorted "point=variant" strings, for
// dispensarytest.WithBehavior.
func (r Report) Behaviors() []string {
	var all []string
	for _, f := range r.Findings {
		if f.Verdict == Seen {
			all = append(all, f.Point+"="+f.Variant)
		}
	}
	return all
}

// fileVersion is the version of the file of behaviors.
const fileVersion = 1

// WriteBehaviors writes the points with verdict [Seen] as a file for
// dispensarytest.WithBehaviorsFile and "dispensary fake --behaviors".
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
