// Package rules turns the chosen variants of package behavior into the rules of a platform.
package rules

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/closestmatch"
)

// Set contains the chosen variant of every point that the API leaves open.
type Set struct {
	Chosen map[string]behavior.Variant // by the name of the choice; never modified

	// Timeout replaces the time for a response of the webhook endpoint, if it is not 0.
	Timeout time.Duration
}

// Is reports whether a variant is chosen.
func (r *Set) Is(v behavior.Variant) bool {
	name, _, _ := strings.Cut(string(v), "=")
	return r.Chosen[name] == v
}

// Variants returns the chosen variants in the order of [behavior.Choices].
func (r *Set) Variants() (all []behavior.Variant) {
	for _, name := range slices.Sorted(maps.Keys(r.Chosen)) {
		all = append(all, r.Chosen[name])
	}
	return all
}

// Current contains the rules in force. They can be replaced at any time.
type Current struct{ p atomic.Pointer[Set] }

func (c *Current) Get() *Set { return c.p.Load() }

func (c *Current) Set(r Set) { c.p.Store(&r) }

// OnActivation returns the type of the event that the activation of a draft emits.
func (r *Set) OnActivation() string {
	if r.Is(behavior.PlanCreatedEventOnCreation) {
		return model.EventTreatmentPlanUpdated
	}
	return model.EventTreatmentPlanCreated
}

// PageSize returns the size of a page if the request has none.
func (r *Set) PageSize() int {
	switch {
	case r.Is(behavior.DefaultPageSize20):
		return 20
	case r.Is(behavior.DefaultPageSize2):
		return 2
	}
	return 25
}

// MetadataLag returns the time until a lookup finds a new record.
func (r *Set) MetadataLag() time.Duration {
	switch {
	case r.Is(behavior.MetadataLag5s):
		return 5 * time.Second
	case r.Is(behavior.MetadataLag1m):
		return time.Minute
	}
	return 0
}

// SendTimeout returns the time for a response of the webhook endpoint.
func (r *Set) SendTimeout() time.Duration {
	switch {
	case r.Timeout > 0:
		return r.Timeout
	case r.Is(behavior.DeliveryTimeout1s):
		return time.Second
	case r.Is(behavior.DeliveryTimeout5s):
		return 5 * time.Second
	}
	return 2 * time.Second
}

// RetrySchedule returns the waits after failed attempts of a delivery.
func (r *Set) RetrySchedule() []time.Duration {
	if r.Is(behavior.RetryScheduleDoubling) {
		return []time.Duration{5 * time.Minute, 10 * time.Minute, 20 * time.Minute, 40 * time.Minute, 80 * time.Minute}
	}
	return []time.Duration{time.Minute, 5 * time.Minute, 30 * time.Minute, time.Hour, 5 * time.Hour}
}

// choices is made once, because every choice is cloned.
var choices = sync.OnceValue(behavior.Choices)

// Choose applies a variant.
func (r *Set) Choose(v behavior.Variant) error {
	name, _, _ := strings.Cut(string(v), "=")
	var names []string
	for _, c := range choices() {
		if names = append(names, c.Name); c.Name != name {
			continue
		}
		if !slices.Contains(c.Variants, v) {
			var known []string
			for _, other := range c.Variants {
				known = append(known, other.Name())
			}
			return fmt.Errorf("dispensarytest: %s has no variant %q, only %s", name, v.Name(), strings.Join(known, ", "))
		}
		r.Chosen = maps.Clone(r.Chosen)
		r.Chosen[name] = v
		return nil
	}
	return errors.New("dispensarytest: " + closestmatch.Unknown("behavior", name, names))
}

// Defaults returns the rules of every new platform.
var Defaults = sync.OnceValue(func() Set {
	s := Set{Chosen: make(map[string]behavior.Variant)}
	for _, c := range choices() {
		s.Chosen[c.Name] = c.Variants[0]
	}
	return s
})

// fileVersion is the version of the file of behaviors, which package probe writes.
const fileVersion = 1

// ChooseFile applies the behaviors in a file. If the file is invalid, it changes nothing:
//
//	{"version": 1, "behaviors": ["probe=before-each"]}
func (r *Set) ChooseFile(content []byte) error {
	var head struct {
		Version *int `json:"version"`
	}
	if err := json.Unmarshal(content, &head); err != nil {
		return fmt.Errorf("not a file of behaviors: %w", err)
	}
	switch {
	case head.Version == nil:
		return errors.New("not a file of behaviors: it has no version")
	case *head.Version != fileVersion:
		return fmt.Errorf("it has version %d; this program reads version %d", *head.Version, fileVersion)
	}
	var file struct {
		Version   int      `json:"version"`
		Behaviors []string `json:"behaviors"`
	}
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&file); err != nil {
		return fmt.Errorf("not a file of behaviors: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("not a file of behaviors: it has data after the object")
	}
	if file.Behaviors == nil {
		return errors.New("not a file of behaviors: it has no behaviors")
	}
	return r.chooseAll(file.Behaviors)
}

func (r *Set) chooseAll(behaviors []string) error {
	changed, named := *r, make(map[string]bool)
	for i, text := range behaviors {
		point, _, ok := strings.Cut(text, "=")
		switch {
		case !ok:
			return fmt.Errorf("behaviors[%d]: %q is not of the form point=variant", i, text)
		case named[point]:
			return fmt.Errorf("behaviors[%d]: %s is set twice", i, point)
		}
		named[point] = true
		if err := changed.Choose(behavior.Variant(text)); err != nil {
			return fmt.Errorf("behaviors[%d]: %s", i, strings.TrimPrefix(err.Error(), "dispensarytest: "))
		}
	}
	*r = changed
	return nil
}
