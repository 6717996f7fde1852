package api_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
)

func TestArgumentErrorText(t *testing.T) {
	t.Parallel()
	err := error(&api.ArgumentError{Operation: "patients.create", Field: "email", Reason: "can't be blank"})
	assert.EqualError(t, err, "dispensary: patients.create: email can't be blank")
	assert.ErrorIs(t, err, api.ErrArgument)
	assert.ErrorIs(t, err, api.ErrNotSent)
	assert.EqualError(t, &api.ArgumentError{Field: "Limit", Reason: "must not be negative"}, "dispensary: Limit must not be negative")
}

func TestArgumentErrorsMatchEach(t *testing.T) {
	t.Parallel()
	email := &api.ArgumentError{Operation: "patients.create", Field: "email", Reason: "can't be blank"}
	name := &api.ArgumentError{Operation: "patients.create", Field: "last_name", Reason: "can't be blank"}
	site := &api.ArgumentError{Field: "Site.BaseURL", Reason: "is plain HTTP", Err: api.ErrInsecure}

	require.NoError(t, api.ArgumentErrors{}.Err())
	assert.Equal(t, error(email), api.ArgumentErrors{email}.Err(), "one error is returned unchanged")

	err := api.ArgumentErrors{email, name, site}.Err()
	assert.EqualError(t, err, "dispensary: patients.create: email can't be blank, last_name can't be blank, Site.BaseURL is plain HTTP")
	for _, sentinel := range []error{api.ErrArgument, api.ErrNotSent, api.ErrInsecure} {
		assert.ErrorIs(t, err, sentinel)
	}
	assert.NotErrorIs(t, err, api.ErrValidation, "the platform sent no response")
	var first *api.ArgumentError
	require.ErrorAs(t, err, &first)
	assert.Equal(t, email, first)
	var all api.ArgumentErrors
	require.ErrorAs(t, err, &all)
	assert.Len(t, all, 3)
}
