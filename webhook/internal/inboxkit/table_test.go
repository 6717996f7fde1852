package inboxkit_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/internal/inboxkit"
)

func TestCountsAddGroupsByCause(t *testing.T) {
	t.Parallel()
	at := func(n int) time.Time { return now.Add(time.Duration(n) * time.Minute) }
	var c engine.Counts
	inboxkit.Group{Type: "a", ClinicID: "cl_1", Reason: "down", Events: 2, Oldest: at(2), First: at(20), Last: at(30)}.AddTo(&c)
	inboxkit.Group{Type: "b", ClinicID: "cl_1", Reason: "down", Events: 3, Oldest: at(1), First: at(10), Last: at(25)}.AddTo(&c)
	inboxkit.Group{Type: "a", ClinicID: "cl_2", Reason: "", Events: 1, Oldest: at(3), First: at(40), Last: at(40)}.AddTo(&c)
	inboxkit.Group{Type: "a", ClinicID: "cl_2", Reason: "down", Events: 4, Oldest: at(4), First: at(15), Last: at(50)}.AddTo(&c)
	assert.Equal(t, engine.Counts{
		Total: 10, Oldest: at(1),
		Types: map[events.Type]int{"a": 7, "b": 3}, Clinics: map[string]int{"cl_1": 5, "cl_2": 5},
		Causes: map[string]engine.Cause{
			"down": {
				Events: 9, Types: map[events.Type]int{"a": 6, "b": 3}, Clinics: map[string]int{"cl_1": 5, "cl_2": 4},
				First: at(10), Last: at(50),
			},
			"": {Events: 1, Types: map[events.Type]int{"a": 1}, Clinics: map[string]int{"cl_2": 1}, First: at(40), Last: at(40)},
		},
	}, c)
}
