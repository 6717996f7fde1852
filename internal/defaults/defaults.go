// Package defaults contains values that several packages share: limits of the platform, and
// defaults of this module.
package defaults

import "time"

// Limits of the platform.
const (
	// TokenLifetime is the lifetime of an access token if the platform does not state one.
	// API section: "Limits".
	TokenLifetime = 2 * time.Hour

	// SignatureTolerance is the largest difference between the timestamp of a webhook and now.
	// API section: "Signature header" 4, which recommends it.
	SignatureTolerance = 5 * time.Minute

	// Requests is the number of requests that an application may send in any period of Per.
	// Assumption: the platform does not document its limit.
	Requests = 5000
	Per      = 5 * time.Minute
)

// Choices of this module.
const (
	// LeaseTTL is the lease of a token refresh. It leaves the token endpoint ten seconds to
	// respond, twice.
	LeaseTTL = 30 * time.Second

	// TokenLeeway is how long before its end a token in use is refreshed in the background, and
	// never more than a quarter of its lifetime. The platform may be unwell for some minutes.
	TokenLeeway = 5 * time.Minute

	// StateKeySize is the smallest size of a key that signs the state of a browser flow, in
	// bytes: that of a key for HMAC with SHA-256.
	StateKeySize = 32

	// FlowRetention is the shortest time for which a store of tokens keeps a flow.
	FlowRetention = 24 * time.Hour
)
