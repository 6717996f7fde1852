// Package probe determines the undocumented behaviors of the API in your sandbox, so that the
// fake platform can behave the same in your tests.
//
// # A run
//
// [Run] sends at most [MaxRequests] requests, one after another. It never retries a request,
// because a retry could hide the observed behavior. It only runs on a sandbox, and calls
// Config.Confirm before the first request. If a lookup does not find a new record, it looks
// again for about a minute.
//
// A run creates two patients and seven treatment plans, and the API cannot delete them. The
// patients are named Dispensary-Probe plus a marker of the run, have addresses at example.com
// and get no welcome email. Before the end, the run cancels the plans if the platform allows
// it. It changes no existing record, but the first use of a clinic key activates its
// integration. The last requests revoke the authorization of Config.Token.
//
// # Findings
//
// Each point has one [Finding] with one of these verdicts:
//
//   - [Seen]: the requests with the listed ids show the variant.
//   - [NotObservable]: no request shows the variant, for example of webhook requests.
//   - [Ambiguous]: the responses match no known variant.
//
// Points about webhooks and events need earlier events in the sandbox. [Report.WriteBehaviors]
// writes the points with verdict [Seen]. On other points the fake platform uses its defaults.
//
// The package does not use the client of this module, because the client hides differences
// such as the status code of a success.
package probe
