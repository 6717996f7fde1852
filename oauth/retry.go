package oauth

import (
	"context"
	"errors"
	"time"

	"github.com/dispensary-go/dispensary/api"
)

// Waits between tries of a refresh token that the platform has refused: the first
// after the user was marked, by whichever replica, the others double. The API
// states none.
const (
	firstRetry = time.Minute
	lastRetry  = time.Hour
)

// retriable reports a mark that may have been a mistake: the platform's, which the
// API gives no reason to exclude, or one of the configuration that has been mended.
func (c *Client) retriable(record Record) bool {
	if record.State == StateActive || record.Token.Environment != c.Environment() || record.Token.RefreshToken == "" {
		return false
	}
	return record.Reason == ReasonInvalidGrant || (record.Reason == ReasonScopesExtended && !c.config.outgrown(record.Token))
}

// mayRetry reports an error of a marked user for whom the platform may be asked
// once more.
func (c *Client) mayRetry(at slot, err error) bool {
	var marked *ReauthorizeError
	if !errors.As(err, &marked) || marked.retryFrom.IsZero() || time.Now().Before(marked.retryFrom) {
		return false
	}
	_, paused := c.RefreshPaused()
	return !paused && c.retrying.blocked(at) == nil
}

// retry is Token for a marked user: the refresh token is tried again where it is
// time to, and otherwise the mark stands.
func (s *UserTokenSource) retry(ctx context.Context, mark error) (api.AccessToken, error) {
	if !s.client.mayRetry(s.slot(toRenew), mark) {
		return api.AccessToken{}, mark
	}
	token, err := s.renew(ctx, &renewal{retry: true})
	if err != nil && !needsUser(err) && ctx.Err() == nil {
		err = mark
	}
	return token, err
}
