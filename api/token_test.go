package api

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestTokenHasScope(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		granted, scope string
		want           bool
	}{
		{"clinic:read patients:read", "patients:read", true},
		{"clinic:read patients:read", "clinic:write", false},
		{"clinic", "clinic:write", true},
		{"patients", "patients:treatment_plan_history", true},
		{"patients", "patient", false},
		{"patient", "patients:read", false},
		{"clinic:read", "clinic", false},
		{"", "catalog:read", false},
		{"clinic:write,patients:read", "patients:read", true},
		{"clinic:write, patients:read", "clinic:write", true},
		{"clinic:write+patients:read", "patients:read", true},
		{"clinic:write\npatients:read", "patients:read", true},
		{"clinic:write,patients:read", "patients:write", false},
		{",", "", false},
		{"  ", "", false},
	} {
		assert.Equal(t, test.want, AccessToken{Scope: test.granted}.HasScope(test.scope), "%q has %q", test.granted, test.scope)
	}
}

func TestTokenSplitsScopes(t *testing.T) {
	t.Parallel()
	for granted, want := range map[string][]string{
		"": {}, " , ": {}, "clinic": {"clinic"}, "clinic:read patients:read": {"clinic:read", "patients:read"},
		"clinic:read, patients:read": {"clinic:read", "patients:read"}, "clinic:read+patients:read": {"clinic:read", "patients:read"},
	} {
		assert.Equal(t, want, AccessToken{Scope: granted}.Scopes(), granted)
	}
}
