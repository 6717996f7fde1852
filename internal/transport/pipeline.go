package transport

import (
	"context"
	"slices"
)

// newPipeline composes what every call goes through, from the outside in. A link does
// its part around the next one.
func newPipeline() step {
	return compose(
		buildErrors,     // every failure becomes an *api.Error
		prepareRequest,  // arguments are checked, nothing is fetched or sent
		captureResponse, // status and headers for those who asked
		authorize,       // token and scopes; once more with a fresh token after a 401
		sendWithRetries, // limit, send, read, log; again while the policy says so
	)
}

var pipeline = newPipeline()

// link is one step of the pipeline, given those that follow.
type link func(ctx context.Context, s *callState, next step) error

func compose(links ...link) step {
	var next step
	for _, outer := range slices.Backward(links) {
		inner := next
		next = func(ctx context.Context, s *callState) error { return outer(ctx, s, inner) }
	}
	return next
}

// send carries a call through the pipeline. On success the state holds the whole
// answer, and the caller decodes and releases it; on failure there is nothing to
// release, and the error says everything.
func (c *Client) send(ctx context.Context, call Call) (*callState, error) {
	ctx, s := newCallState(ctx, c, call)
	if err := pipeline(ctx, s); err != nil {
		s.release()
		return nil, err
	}
	return s, nil
}
