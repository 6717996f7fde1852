package accounts

import (
	"context"

	"github.com/dispensary-go/dispensary/oauth/tokens"
)

// SourceForTest returns what a client of user is authorized by.
func (a *Accounts) SourceForTest(ctx context.Context, user string) (*tokens.TokenSource, error) {
	app, err := a.locate(ctx, user)
	if err != nil {
		return nil, err
	}
	return a.source(app, user), nil
}
