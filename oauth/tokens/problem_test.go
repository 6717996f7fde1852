package tokens

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

func TestErrorsDescribeProblems(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err  error
		want api.Problem
	}{
		{fmt.Errorf("%w: %w", ErrOwnerRefused, context.Canceled), api.Problem{Status: 403, Title: "This dispensary account cannot be connected here. Please use another one.", Reauthorize: true}},
		{ErrUndecided, api.Problem{Status: 502, Title: "The dispensary account could not be checked. Please try again later."}},
		{ErrAccountChanged, api.Problem{Status: 409, Title: "The dispensary account was changed meanwhile. Please try again."}},
		{storeError("Load", tokenstore.Key{User: "u"}, context.DeadlineExceeded), api.Problem{Status: 503, Title: "This is not possible right now. Please try again later."}},
		{&ReauthorizeError{Reason: tokenstore.ReasonNotConnected}, api.Problem{Status: 409, Title: "Please connect your dispensary account.", Reauthorize: true}},
	} {
		assert.Equal(t, &test.want, api.ProblemOf(test.err), test.err)
	}
}
