package inboxkit

import (
	"slices"
	"time"

	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// KeptFailures is the number of failures stored for each event of an [engine.Engine].
const KeptFailures = 5

// AppendFailure returns a new slice with the failures in kept and the failure of a at the time
// at. It drops the oldest failures beyond [KeptFailures].
func AppendFailure(kept []engine.Failure, a webhook.Attempt, at time.Time) []engine.Failure {
	kept = append(slices.Clip(kept), engine.Failure{
		Attempt: a.Number, At: at.UTC().Truncate(time.Microsecond), Duration: a.Duration,
		Reason: a.Reason(), RequestID: a.RequestID(),
	})
	return kept[max(0, len(kept)-KeptFailures):]
}
