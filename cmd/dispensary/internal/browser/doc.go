// Package browser tests every page of the fake platform, the console, the operations page and
// examples/ehr in headless Chromium. The tests check that users can complete their tasks with
// and without scripts, that the browser reports no error, that all text is readable, and that
// every control has a name for screen readers. The package contains only tests.
//
// The tests need Chromium or Chrome on the PATH. Without it they are skipped. CI installs it.
// If DISPENSARY_TEST_AXE is the path of axe.min.js, axe-core also checks every page.
//
//	go test .            # all tests
//	go test . -update    # also write new pictures to docs/screenshots
//
// # Library
//
// The tests use github.com/chromedp/chromedp (MIT). It controls an installed browser with the
// DevTools protocol through a pipe, depends only on the types of the protocol, and has a
// release for each change of the protocol. github.com/go-rod/rod is equally convenient, but
// its latest release is two years older than current browsers, and it downloads a browser by
// default.
package browser
