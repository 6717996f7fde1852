// Package diagnose explains why the signature of a saved delivery is rejected: another secret,
// a wrong clock, or a changed body, including the kind of change. It works offline.
//
//	delivery, err := diagnose.Parse(saved) // a whole HTTP request
//	report, err := diagnose.Check(delivery, diagnose.Config{Secrets: secrets, ReceivedAt: receivedAt})
//	fmt.Println(report.Reason, report.Detail)
//
// Use it to find a fault, or in tests of a proxy in front of a receiver. The receiver itself
// needs [webhook.Handler] or [webhook.Verifier]: they reveal less about a rejected request.
package diagnose
