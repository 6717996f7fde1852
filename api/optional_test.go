package api_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
)

type update struct {
	Name api.Optional[string] `json:"name,omitzero"`
	Age  api.Optional[int]    `json:"age,omitzero"`
}

func TestOptionalEncodesInJSON(t *testing.T) {
	t.Parallel()
	for want, u := range map[string]update{
		`{}`:                     {},
		`{"name":null}`:          {Name: api.Null[string]()},
		`{"name":"","age":0}`:    {Name: api.Value(""), Age: api.Value(0)},
		`{"name":"Ada","age":3}`: {Name: api.Value("Ada"), Age: api.Value(3)},
	} {
		body, err := json.Marshal(u)
		require.NoError(t, err)
		assert.JSONEq(t, want, string(body))
		var again update
		require.NoError(t, json.Unmarshal(body, &again))
		assert.Equal(t, u, again)
	}
}

func TestOptionalReportsState(t *testing.T) {
	t.Parallel()
	var unset api.Optional[string]
	assert.True(t, unset.IsZero())
	_, ok := unset.Get()
	assert.False(t, ok)
	_, ok = api.Null[string]().Get()
	assert.False(t, ok)
	value, ok := api.Value("x").Get()
	assert.True(t, ok)
	assert.Equal(t, "x", value)
	var bad api.Optional[int]
	assert.Error(t, json.Unmarshal([]byte(`"x"`), &bad))
}

func TestOptionalHidesValue(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		assert.NotContains(t, fmt.Sprintf(verb, update{Name: api.Value("canary")}), "canary")
		assert.NotContains(t, fmt.Sprintf(verb, update{Name: api.Value("canary")}), "63616e617279")
	}
	assert.Equal(t, "unset null set", fmt.Sprint(api.Optional[int]{}, " ", api.Null[int](), " ", api.Value(1)))
}
