package transport

import (
	"context"
	"slices"
)

// newPipeline composes the links of every call, outermost first. Each link calls the next one.
func newPipeline() step {
	return compose(
		buildErrors,     // turns every failure into an *api.Error
		prepareRequest,  // checks the arguments, fetches no token and sends no request
		captureResponse, // stores status and headers for api.CaptureResponse
		authorize,       // token and scopes; one retry with a fresh token after a 401
		sendWithRetries, // limit, send, read, log; retries as the policy allows
	)
}

var pipeline = newPipeline()

// link is one step of the pipeline. next contains the links after it.
type link func(ctx context.Context, s *callState, next step) error

func compose(links ...link) step {
	var next step
	for _, outer := range slices.Backward(links) {
		inner := next
		next = func(ctx context.Context, s *callState) error { return outer(ctx, s, inner) }
	}
	return next
}

// send sends a call through the pipeline. On success the state contains the whole response,
// and the caller decodes and releases it. On failure send has already released the state.
func (c *Client) send(ctx context.Context, call Call) (*callState, error) {
	ctx, s := newCallState(ctx, c, call)
	if err := pipeline(ctx, s); err != nil {
		s.release()
		return nil, err
	}
	return s, nil
}
