// Package browser opens every page of the fake platform and of its console in a
// real browser, headless Chromium, and holds them to what people need: a person
// gets through, with scripts and without, nothing fails behind the page, every text
// can be read, and everything has a name. It holds only tests.
//
// The tests need a Chromium or Chrome on the PATH. Where there is none they are
// skipped with one line; CI installs one.
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
// and it downloads a browser unless told not to.
package browser
