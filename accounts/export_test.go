package accounts

import (
	"context"

	"github.com/dispensary-go/dispensary/oauth"
)

// SourceForTest returns what a client of user is authorized by.
func (a *Accounts) SourceForTest(ctx context.Context, user string) (*oauth.UserTokenSource, error) {
	app, err := a.of(ctx, user)
	if err != nil {
		return nil, err
	}
	return a.source(app, user), nil
}
