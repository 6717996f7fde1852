package api_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dispensary-go/dispensary/api"
)

func refused(status int, messages ...api.Message) *api.Error {
	return api.NewError(api.Error{Operation: "patients.create", StatusCode: status, Outcome: api.OutcomeNotApplied}, nil, nil, messages)
}

func TestFieldErrors(t *testing.T) {
	t.Parallel()
	email, name := api.Message{Field: "email", Text: "Email is invalid"}, api.Message{Field: "last_name", Text: "Last name can't be blank"}
	blank := func(field string) *api.ArgumentError {
		return &api.ArgumentError{Operation: "patients.create", Field: field, Reason: "can't be blank"}
	}
	both := map[string][]string{"email": {"Email can't be blank"}, "last_name": {"Last name can't be blank"}}
	for name, test := range map[string]struct {
		err  error
		want map[string][]string
	}{
		"none":                 {nil, nil},
		"another":              {errors.New("other"), nil},
		"the platform's":       {refused(422, email, name, api.Message{Field: "email", Text: "Email is too long"}, api.Message{Text: "Bad"}), map[string][]string{"email": {"Email is invalid", "Email is too long"}, "last_name": {"Last name can't be blank"}, "": {"Bad"}}},
		"of another status":    {refused(400, email), map[string][]string{"email": {"Email is invalid"}}},
		"a conflict":           {refused(409, api.Message{Text: "Treatment plan is not active"}), map[string][]string{"": {"Treatment plan is not active"}}},
		"without messages":     {refused(422), nil},
		"unauthorized":         {refused(401, api.Message{Text: "The access token expired"}), nil},
		"not found":            {refused(404, api.Message{Text: "Not Found"}), nil},
		"a server error":       {refused(500, email), nil},
		"no answer":            {api.NewError(api.Error{}, blank("email"), nil, nil), nil},
		"OAuth's":              {api.NewError(api.Error{StatusCode: 400, Code: "invalid_grant"}, nil, nil, []api.Message{{Text: "The grant is invalid"}}), nil},
		"an argument":          {blank("practitioner_id"), map[string][]string{"practitioner_id": {"Practitioner can't be blank"}}},
		"arguments":            {api.ArgumentErrors{blank("email"), blank("last_name")}, both},
		"wrapped":              {fmt.Errorf("saving: %w", api.ArgumentErrors{blank("email"), blank("last_name")}), both},
		"what no form has":     {&api.ArgumentError{Operation: "patients.create", Field: "ClinicKey", Reason: "is empty"}, map[string][]string{"": {"ClinicKey is empty"}}},
		"taken":                {&api.EnsureError{Operation: "patients.create", Reason: api.EnsureTaken, Field: "email"}, map[string][]string{"email": {"Email has already been taken"}}},
		"several records":      {&api.EnsureError{Operation: "patients.create", Reason: api.EnsureAmbiguous}, nil},
		"unknown what became":  {&api.EnsureError{Reason: api.EnsureUnknown, Err: refused(500, email)}, nil},
		"the end of a context": {context.Canceled, nil},
	} {
		assert.Equal(t, test.want, api.FieldErrors(test.err), name)
	}
}

func TestFieldsOfAnErrorAreACopy(t *testing.T) {
	t.Parallel()
	err := refused(422, api.Message{Field: "email", Text: "Email is invalid"})
	err.Fields()["email"][0] = "changed"
	assert.Equal(t, map[string][]string{"email": {"Email is invalid"}}, err.Fields())
	assert.Equal(t, []string{"Email is invalid"}, err.Messages())
	assert.Nil(t, (&api.Error{}).Fields())
}

func TestFieldLabel(t *testing.T) {
	t.Parallel()
	for field, want := range map[string]string{
		"email": "Email", "last_name": "Last name", "practitioner_id": "Practitioner", "metadata.id": "Metadata.id", "id": "Id",
		"recommendations[0].variant_id": "Recommendations[0].variant", "": "", "_id": "", "élan_vital": "Élan vital",
	} {
		assert.Equal(t, want, api.FieldLabel(field), field)
	}
}

func TestEnsureErrorNamesTheField(t *testing.T) {
	t.Parallel()
	err := &api.EnsureError{Operation: "patients.create", Reason: api.EnsureTaken, Field: "email", IDs: []string{"p1"}}
	assert.EqualError(t, err, "dispensary: ensure, patients.create: email: a record is in the way that belongs to another metadata id or owner (p1)")
}
