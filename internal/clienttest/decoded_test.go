package clienttest_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/internal/operation"
	"github.com/dispensary-go/dispensary/internal/testkit/calltest"
)

// testdata/decoded.txt contains the decoded result of each operation, one line for each.
func TestDecodedResponsesMatchGolden(t *testing.T) {
	t.Parallel()
	clock := dispensarytest.FrozenClock(time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC))
	var lines strings.Builder
	for _, op := range operation.All() {
		if strings.HasPrefix(op.Name, "oauth.") {
			continue
		}
		decoded, err := calltest.All(t)[op.Name](t.Context(), calltest.NewFixture(t, dispensarytest.WithInMemory(), dispensarytest.WithClock(clock)))
		require.NoError(t, err)
		line, err := json.Marshal(decoded)
		require.NoError(t, err)
		fmt.Fprintf(&lines, "%s %s\n", op.Name, line)
	}
	compareGolden(t, "../../testdata/decoded.txt", []byte(lines.String()))
}
