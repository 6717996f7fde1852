package browser

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/chromedp/chromedp"
)

var update = flag.Bool("update", false, "write docs/screenshots anew")

// chromium is the one browser of all tests, nil where none is installed. Each test
// has its own profile in it.
var chromium context.Context

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(withChromium(m.Run))
}

// withChromium runs the tests while a browser runs, if there is one.
func withChromium(run func() int) int {
	program := installed()
	if program == "" {
		return run()
	}
	started, end := chromedp.NewExecAllocator(context.Background(), options(program)...)
	defer end()
	first, leave := chromedp.NewContext(started)
	defer leave()
	if err := chromedp.Do(first); err != nil {
		fmt.Fprintln(os.Stderr, program, "does not start:", err)
		return 1
	}
	chromium = first
	return run()
}

// installed is the browser's program, "" where there is none: the one without windows, which
// takes less, where it can be had.
func installed() string {
	for _, name := range []string{"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if program, err := exec.LookPath(name); err == nil {
			return program
		}
	}
	return ""
}

// options start a browser with a new profile that connects only to the pages of
// the tests.
func options(program string) []chromedp.ExecAllocatorOption {
	return append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]),
		chromedp.ExecPath(program), chromedp.DisableGPU,
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-quic", true), chromedp.Flag("no-proxy-server", true),
	)
}
