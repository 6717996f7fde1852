package browser

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// startTypeahead builds and runs examples/typeahead, and returns its address.
func startTypeahead(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "typeahead")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "./typeahead")
	build.Dir = filepath.Join("..", "..", "..", "..", "examples")
	output, err := build.CombinedOutput()
	require.NoError(t, err, "%s", output)
	program := exec.Command(binary, "-addr", "127.0.0.1:0", "-store", filepath.Join(t.TempDir(), "catalog.db")) //nolint:noctx // it is asked to end
	written, err := program.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, program.Start())
	t.Cleanup(func() {
		assert.NoError(t, program.Process.Signal(os.Interrupt))
		assert.NoError(t, program.Wait())
	})
	line, err := bufio.NewReader(written).ReadString('\n')
	require.NoError(t, err)
	return strings.Fields(line)[1]
}

// The page of examples/typeahead finds products while one types, and without scripts
// when one presses the button.
func TestTypeahead(t *testing.T) {
	t.Parallel()
	if chromium == nil {
		t.Skip("Chromium is not installed")
	}
	address := startTypeahead(t)
	for name, without := range map[string]bool{"with scripts": false, "without scripts": true} {
		t.Run(name, func(t *testing.T) {
			b := open(t)
			call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: without})
			b.visit(address)
			b.audit("nothing typed")
			b.fill("q", "glyc magnezium")
			if without {
				b.press("Search")
			}
			b.sees("Magnesium Glycinate, ", "1 found of the brands that your clinic may order")
			b.audit("what was found")
			b.fill("q", "xyzzy")
			if without {
				b.press("Search")
			}
			b.sees("0 found of the brands")
			b.fill("q", "qurecetin")
			if without {
				b.press("Search")
			}
			b.sees("Quercetin & Bromelain")
			b.leads(chromedp.Click(chromedp.CSS("#results a"), chromedp.NodeVisible))
			b.sees("available, as the platform says.")
			b.audit("a variant")
			b.opens(address+"/?q="+strings.Repeat("a+", 20), 400)
			b.refused(400)
			b.sees("That cannot be searched for.")
		})
	}
}
