// Package diagnose says why the signature of a delivery that was saved is refused: the
// secret is another one, the clock is off, or the body is not the one that was signed, and
// then what changed it. It works without a network and is made for people who look for a
// fault, and for tests of what stands in front of a receiver; a receiver itself uses
// [webhook.Handler] or [webhook.Verifier], which say no more than they have to.
//
//	delivery, err := diagnose.Parse(saved) // a whole HTTP request
//	report, err := diagnose.Check(delivery, diagnose.Config{Secrets: secrets, ReceivedAt: receivedAt})
//	fmt.Println(report.Reason, report.Detail)
package diagnose
