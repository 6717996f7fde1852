package webpage_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dispensary-go/dispensary/internal/webpage"
)

func TestOldOutcomesAreRemoved(t *testing.T) {
	t.Parallel()
	var o webpage.Outcomes[int]
	assert.Nil(t, o.Find(""))
	names := map[string]bool{}
	var all []string
	for n := range 100 {
		all = append(all, o.Keep(n))
		names[all[n]] = true
	}
	assert.Len(t, names, 100)
	for n, name := range all {
		if n < 36 {
			assert.Nil(t, o.Find(name), n)
		} else {
			assert.Equal(t, n, *o.Find(name))
		}
	}
	for _, name := range []string{"", "1", "99"} {
		assert.Nil(t, o.Find(name), name)
	}
}
