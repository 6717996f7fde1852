// Package probe learns on an integrator's own sandbox how the platform behaves on the
// points that the API leaves open, so that the fake platform of tests can behave the same.
//
// # What a run does
//
// It sends at most [MaxRequests] requests, one after another and each once: a probe that
// repeated what failed would hide it. It only runs on a sandbox, and asks Config.Confirm
// before the first request, because it leaves something behind: two patients and seven
// treatment plans, which the API cannot delete. Patients are named Dispensary-Probe and
// a marker that is new with each run, have addresses at example.com and get no welcome
// e-mail. In the end the run cancels the plans if the platform allows it. No record that was
// there before is changed, but an integration whose clinic key was never used becomes
// active with it. The last requests revoke the authorization of Config.Token.
//
// # Findings
//
// Every point has one [Finding]. It is [Seen] with the ids of the requests that show it,
// [NotObservable] if no request shows it, such as the way webhooks are sent, or
// [Ambiguous] if the platform's responses fit no known variant. Points about webhooks and
// events show only if the sandbox had some before. [Report.WriteBehaviors] writes the
// points that were seen. On the others a fake platform keeps its defaults.
//
// The package does not use the client of this module, which evens out differences such as
// the status of success.
package probe
