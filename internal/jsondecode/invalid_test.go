package jsondecode_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/internal/jsondecode"
)

func TestInvalidContainsFieldAndRecordID(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]jsondecode.Invalid{
		`{"id":"a","count":"x"}`:       {{"count", "a"}},
		`{"count":"x","id":"a"}`:       {{"count", "a"}},
		`{ "count" : [] , "id" : 17 }`: {{"count", "17"}},
		`{"id":"a","child":{"id":"b","children":[{"id":"c"},{"ratio":{}}]}}`: {{"child.children[1].ratio", "b"}},
		`{"id":"a","child":{"id":"b","count":"x"},"sure":2}`:                 {{"child.count", "b"}, {"sure", "a"}},
		`{"id":{},"child":{"id":["x"]}}`:                                     {{"id", ""}, {"child.id", ""}},
		`{"id":"two words","count":"x"}`:                                     {{"count", ""}},
		`{"id":-17e3,"count":"x"}`:                                           {{"count", ""}},
		`{"id":"a\u0062","count":"x"}`:                                       {{"count", "ab"}},
		`{"id":"` + strings.Repeat("x", 65) + `","count":"x"}`:               {{"count", ""}},
		`{"children":[null,{"id":"1"},5],"id":"a"}`:                          {{"children[0]", "a"}, {"children[2]", "a"}},
		`{"words":["x",[],{}],"when":"0000-00-00"}`:                          {{"words[1]", ""}, {"words[2]", ""}, {"when", ""}},
	} {
		invalid, err := jsondecode.Unmarshal([]byte(text), new(record))
		require.NoError(t, err, text)
		assert.Equal(t, want, invalid, text)
	}
}

func TestUnmarshalLimitsInvalidValues(t *testing.T) {
	t.Parallel()
	var got []int
	invalid, err := jsondecode.Unmarshal([]byte("["+strings.Repeat(`"x",`, 500)+"1]"), &got)
	require.NoError(t, err)
	assert.Len(t, invalid, jsondecode.MaxInvalid)
	assert.Equal(t, fmt.Sprintf("[%d]", jsondecode.MaxInvalid-2), invalid[jsondecode.MaxInvalid-2].Field)
	assert.Equal(t, "[499]", invalid[jsondecode.MaxInvalid-1].Field)
	assert.Equal(t, []int{1}, got)
}

func TestUnknownFieldCollectsMembers(t *testing.T) {
	t.Parallel()
	type line struct {
		ID    string `json:"id"`
		Extra string `json:"-" unknown:""`
	}
	var got []line
	decode(t, []byte("[{\"new\":{\"a\": [1]},\"id\":\"x\",\"more\":null},{\"id\":\"y\"},{\"bad\xff\":\"\xff\"}]"), &got)
	assert.Equal(t, []line{{"x", `"new":{"a": [1]},"more":null`}, {ID: "y"}, {"", "\"bad\uFFFD\":\"\uFFFD\""}}, got)
}
