package main

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/dispensarytest"
)

func TestTheWorkIsDone(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), &out))
	assert.Equal(t, []string{"user-1 has 5 patients", "user-2 has 5 patients", "user-3 has 5 patients"}, lines(&out))
}

func lines(out *bytes.Buffer) []string {
	return slices.Sorted(slices.Values(strings.Split(strings.TrimSpace(out.String()), "\n")))
}

// A user who has to connect again does not stop the work for others, and is reported
// without a request.
func TestUserWhoMustConnectAgainIsReported(t *testing.T) {
	t.Parallel()
	platform := dispensarytest.New(t)
	users, err := newAccounts(platform)
	require.NoError(t, err)
	people := platform.Users()
	require.NoError(t, connect(t.Context(), platform, users, people[0], "user-1"))
	platform.Tokens.InvalidateAll()
	require.NoError(t, connect(t.Context(), platform, users, people[1], "user-2"))
	for range 2 {
		platform.Journal().Reset()
		var out bytes.Buffer
		require.NoError(t, work(t.Context(), users, &out))
		assert.Equal(t, []string{"user-1 has to connect again", "user-2 has 5 patients"}, lines(&out))
	}
	assert.Empty(t, platform.Journal().Of("oauth.token"), "the second time no token is requested")
}

func TestAFailureIsReturned(t *testing.T) {
	t.Parallel()
	platform := dispensarytest.New(t)
	users, err := newAccounts(platform)
	require.NoError(t, err)
	require.NoError(t, connect(t.Context(), platform, users, platform.Users()[0], "user-1"))
	require.NoError(t, platform.Close())
	var out bytes.Buffer
	err = work(t.Context(), users, &out)
	require.Error(t, err)
	assert.False(t, errors.Is(err, dispensary.ErrReauthorize), fmt.Sprint(err))
	assert.Empty(t, out.String())
}
