// Package probe learns on an integrator's own sandbox how the platform behaves on the
// points that the API leaves open, so that the fake platform of tests can behave so:
//
//	report, err := probe.Run(ctx, probe.Config{
//		Application: oauth.Config{Site: site, ClientID: id, ClientSecret: secret, RedirectURL: redirect},
//		Token:       token, // of a user who can authorize again
//		ClinicKey:   key,
//		Confirm:     ask,
//	})
//	err = report.WriteBehaviors(file)
//
// and in a test
//
//	fake := dispensarytest.New(t, dispensarytest.WithBehaviorsFile("testdata/behaviors.json"))
//
// or on the command line "dispensary probe" and "dispensary fake --behaviors behaviors.json".
//
// # What a run does
//
// It sends at most [MaxRequests] requests, one after another and each once: a probe that
// repeated what failed would hide it. It only runs on a sandbox, and asks Config.Confirm
// before it sends anything, because it leaves something behind: two patients and seven
// treatment plans, which the API cannot delete. Patients are named Dispensary-Probe and
// a marker that is new with each run, have addresses at example.com and get no welcome
// e-mail; plans are cancelled in the end where the platform allows it. No record that was
// there before is changed, but an integration whose clinic key was never used becomes
// active with it. The last requests revoke the authorization of Config.Token.
//
// # What it says
//
// Every point has one [Finding]. It is [Seen] with the ids of the requests that show it;
// [NotObservable] where no request shows it, such as how webhooks are sent; or
// [Ambiguous] where the platform answered in none of the ways that are known. Points about
// webhooks and events show only as far as the sandbox had some before. [Report.WriteBehaviors]
// writes what was seen; on the other points a fake platform keeps its defaults.
//
// Requests are not made with the client of this module: it evens out what has to be seen
// here, such as the status of success.
package probe
