package dispensarytest

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// aboutWebhooks are the silences whose readings no answer shows: only webhooks do.
var aboutWebhooks = []string{
	SilenceDeliveryConditions, SilenceDeliveryTimeout, SilencePlanCreatedEvent, SilenceProbe, SilenceProbeSignature,
	SilenceResumeAfterEnable, SilenceRetrySchedule, SilenceWebhookEnvelope,
}

func TestSilencesNameTheirOperations(t *testing.T) {
	t.Parallel()
	touched := touchedBy()
	for _, s := range Silences() {
		assert.Equal(t, slices.Contains(aboutWebhooks, s.Name), len(s.Operations) == 0, s.Name)
		delete(touched, s.Name)
	}
	assert.Empty(t, slices.Collect(maps.Keys(touched)), "there are no such silences")
}

// answersTo has what a platform answers under a reading, for each operation: to a
// request, to one without the scope, and to a wrong one. Each is made of the same
// state of the platform.
func answersTo(t *testing.T, silence, reading string) map[string][]string {
	b := start(t, WithInMemory(), WithClock(frozen()))
	all, narrow := exemplars(t, b), b.with("catalog:read")
	snap := b.fake.Snapshot()
	require.NoError(t, b.fake.SetReading(silence, reading))
	answers := map[string][]string{}
	for id, e := range all {
		body, _ := e.body.(map[string]any)
		wrong := merged(body, "colour", "red")
		sep := "?"
		if strings.Contains(e.path, "?") {
			sep = "&"
		}
		for _, send := range []func() answer{
			func() answer { return b.send(e.op.method, e.path, e.body) },
			func() answer { return narrow.send(e.op.method, e.path, e.body) },
			func() answer { return b.send(e.op.method, e.path+sep+"page[size]=0", wrong) },
			func() answer { return b.send(e.op.method, e.path+sep+"page[size]=101&page[number]=9", wrong) },
		} {
			got := send()
			answers[id] = append(answers[id], fmt.Sprint(got.status, got.text))
			if e.op.method != http.MethodGet {
				b.fake.Restore(snap)
			}
		}
	}
	return answers
}

// Whatever a reading changes in an answer, its silence says that it does.
func TestReadingsChangeOnlyWhatTheyName(t *testing.T) {
	t.Parallel()
	usual := answersTo(t, SilenceProbe, "off")
	for _, s := range Silences() {
		for _, r := range s.Readings[1:] {
			t.Run(s.Name+"="+r.Name, func(t *testing.T) {
				t.Parallel()
				for id, answers := range answersTo(t, s.Name, r.Name) {
					if !slices.Contains(s.Operations, id) {
						assert.Equal(t, usual[id], answers, id)
					}
				}
			})
		}
	}
}
