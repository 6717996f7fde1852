// Package defaults contains values that several packages share: limits of the platform and
// defaults of this module.
package defaults

import "time"

// Limits of the platform.
const (
	// TokenLifetime is the lifetime of an access token if the platform does not state one.
	// API section: "Limits".
	TokenLifetime = 2 * time.Hour

	// SignatureTolerance is the largest accepted difference between the timestamp of a webhook
	// and the current time. API section: "Signature header" 4, as a recommendation.
	SignatureTolerance = 5 * time.Minute

	// Requests is the number of requests that an application may send in any period of length
	// Per. Assumption: the platform does not document its limit.
	Requests = 5000
	Per      = 5 * time.Minute
)

// Choices of this module.
const (
	// LeaseTTL is the duration of the lease for a token refresh. It allows two requests to the
	// token endpoint of 10 seconds each.
	LeaseTTL = 30 * time.Second

	// TokenLeeway is the time before its expiry at which a token in use is refreshed in the
	// background. It is at most a quarter of the token's lifetime. The platform may be
	// unavailable for some minutes.
	TokenLeeway = 5 * time.Minute

	// StateKeySize is the minimum size in bytes of the key that signs the state of a browser
	// flow. It is the key size of HMAC with SHA-256.
	StateKeySize = 32

	// FlowRetention is the minimum time for which a token store keeps a flow.
	FlowRetention = 24 * time.Hour
)
