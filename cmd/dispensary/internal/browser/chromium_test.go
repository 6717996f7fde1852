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

var update = flag.Bool("update", false, "write docs/screenshots")

// chromium is the browser of all tests, or nil if none is installed. Each test has its own
// profile.
var chromium context.Context

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(withChromium(m.Run))
}

// withChromium starts the browser, if one is installed, and runs the tests.
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
		fmt.Fprintln(os.Stderr, program, "did not start:", err)
		return 1
	}
	chromium = first
	return run()
}

// installed returns the path of the browser, or "" if none is installed. It prefers the headless
// shell, which needs fewer resources.
func installed() string {
	for _, name := range []string{"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if program, err := exec.LookPath(name); err == nil {
			return program
		}
	}
	return ""
}

// options returns the options for a browser with a new profile. The browser connects only to the
// pages of the tests.
func options(program string) []chromedp.ExecAllocatorOption {
	return append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]),
		chromedp.ExecPath(program), chromedp.DisableGPU,
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-quic", true), chromedp.Flag("no-proxy-server", true),
	)
}
