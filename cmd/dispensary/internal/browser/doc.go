// Package browser opens every page of the fake platform and of its console in a
// real browser, headless Chromium. It checks that a person gets through, with scripts
// and without, that nothing fails behind the page, that every text can be read, and that
// everything has a name for screen readers. It contains only tests.
//
// The tests need a Chromium or Chrome on the PATH. Without one they are skipped
// with one line; CI installs one. If DISPENSARY_TEST_AXE is the path of axe.min.js, axe-core
// checks every page as well.
//
//	go test .            # all walks
//	go test . -update    # and new pictures in docs/screenshots
//
// # Which library
//
// github.com/chromedp/chromedp speaks the browser's own protocol through a pipe,
// uses what is installed, depends on nothing but its protocol's types, and is
// released with every change of that protocol (MIT). github.com/go-rod/rod is as
// pleasant, but its latest release is two years older than the browsers of today,
// and it downloads a browser unless that is switched off.
package browser
