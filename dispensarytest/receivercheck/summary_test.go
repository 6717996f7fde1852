package receivercheck_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/receivercheck"
)

// TestSkippedCasesAreNamed runs a check that passes in a process of its own, as go
// test does without -v.
func TestSkippedCasesAreNamed(t *testing.T) {
	t.Parallel()
	suite := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestPlainReceiver$", "-test.count=1")
	suite.Env = append(os.Environ(), "DISPENSARY_TEST_PLAIN=1")
	output, err := suite.CombinedOutput()
	require.NoError(t, err, "%s", output)
	var said []string
	for line := range strings.Lines(string(output)) {
		if strings.Contains(line, "receivercheck:") {
			said = append(said, line)
		}
	}
	require.Len(t, said, 1, "%s", output)
	for _, want := range []string{
		"receivercheck: TestPlainReceiver did not run 10 of 44 cases: ",
		"Signature/Replayed, Always/HandledOnce (needs Target.Hooks.Handled, which tells how often an event was handled)",
		"Delivery/StorageDown (needs Target.Hooks.BreakStorage, ",
	} {
		assert.Contains(t, said[0], want)
	}
}

// TestPlainReceiver is a check without hooks, in the process of another test.
func TestPlainReceiver(t *testing.T) {
	if os.Getenv("DISPENSARY_TEST_PLAIN") == "" {
		t.Skip("runs in the process that TestSkippedCasesAreNamed starts")
	}
	s := newSubject(t)
	receivercheck.Run(t, receivercheck.Target{Handler: s, Secret: webhookSecret, Challenge: challengeToken, Timing: receivercheck.Timing{Timeout: patient}})
}
