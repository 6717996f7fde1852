package jsondecode

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestScannerVisitsMembersAndElements(t *testing.T) {
	t.Parallel()
	s := Scanner{Data: []byte(` {"a": [1, {"b": 2}, "c"], "d\u0065": null} `)}
	var keys []string
	var elements int
	assert.EqualValues(t, '{', s.Next())
	assert.True(t, s.Members(1, func(key []byte) bool {
		keys = append(keys, string(Unquote(key)))
		if s.Next() != '[' {
			return s.Value(1)
		}
		return s.Elements(2, func() bool { elements++; return s.Value(2) })
	}))
	assert.True(t, s.End())
	assert.Equal(t, []string{"a", "de"}, keys)
	assert.Equal(t, 3, elements)
}

func TestVisitorsStopScan(t *testing.T) {
	t.Parallel()
	s := Scanner{Data: []byte(`{"a":1,"b":2}`)}
	assert.False(t, s.Members(1, func([]byte) bool { return false }))
	s = Scanner{Data: []byte(`[1,2]`)}
	assert.False(t, s.Elements(1, func() bool { return false }))
}

func TestScannerLimitsDepth(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", maxDepth+1) + strings.Repeat("]", maxDepth+1)
	s := Scanner{Data: []byte(deep)}
	assert.False(t, s.Value(0))
	s = Scanner{Data: []byte(strings.Repeat(`{"a":`, maxDepth+1) + "1" + strings.Repeat("}", maxDepth+1))}
	assert.False(t, s.Value(0))
}

// The scanner accepts exactly the texts that encoding/json accepts.
func FuzzValue(f *testing.F) {
	for _, seed := range []string{`{"a":[1,-0.5e+3,"\u00e9",true,false,null]}`, `[01]`, `"\x"`, `{"a"}`, `[1,]`, `tru`, `"`, `-`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s := Scanner{Data: data}
		valid := s.Value(0) && s.End()
		assert.Equal(t, json.Valid(data), valid)
		if valid && len(data) > 1 && data[0] == '"' && data[len(data)-1] == '"' {
			var want string
			if json.Unmarshal(data, &want) == nil {
				assert.Equal(t, want, string(Unquote(data)))
			}
		}
	})
}
