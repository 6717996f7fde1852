// Package doctor looks at a whole integration, from the addresses of the platform to the
// dead letters of the inbox, and says in one table what is wrong, what that does in
// production, and how to fix it:
//
//	report, err := doctor.Run(ctx, doctor.Config{
//		OAuth: oauth.Config{Site: site, ClientID: id, ClientSecret: secret, RedirectURL: redirect},
//		Store: store, User: "user-17", Operations: []string{"patients.create"},
//		Webhook: doctor.Webhook{URL: "https://ehr.example/webhooks", Secrets: secrets, Challenge: challenge},
//		Inbox: inbox,
//	})
//	err = report.Write(os.Stdout)
//
// # Rows
//
// Each [Row] is a check that passed, warns, failed, or was skipped, because what it needs
// is not configured or has failed itself: one cause is reported once.
//
//	site address          the API answers at its address
//	TLS                   its certificate, and for how long
//	clock                 this machine's against the platform's
//	client credentials    the token endpoint knows the application
//	redirect address      the authorization page knows it
//	token                 a user's stored token can be used
//	token owner           whom it acts for
//	token scopes          what the operations that you call need
//	token refresh         the platform renews it
//	webhook address       your endpoint can be reached
//	webhook certificate   its certificate, and for how long
//	webhook time          it answers within the platform's two seconds
//	webhook redirects     it is where it was registered
//	webhook gone          it does not answer 410
//	webhook signature     it takes what is signed with the secret
//	webhook challenge     it answers with the challenge token
//	webhook forgery       it refuses wrong signatures
//	webhook replay        it refuses old signatures
//	webhook body          what is signed reaches it byte for byte
//	webhook activation    a request has sent the clinic key, so webhooks are sent
//	delivery log          the platform can be asked for it
//	delivery failures     what failed, and why
//	delivery switch-off   how near the platform is to switching the endpoint off
//	delivery order        what came after something newer
//	inbox                 it answers
//	inbox schema          its tables are those of this release
//	inbox waiting         how long the oldest event waits
//	inbox dead letters    how many were given up
//	inbox sealed          what it holds can be opened
//	store                 it answers and accepts writes
//	store schema          its tables are those of this release
//	store sealed          no token is at rest in clear
//	store users           who has to authorize again
//	store lease           no refresh hangs
//	database TLS          connections to databases cannot be read on the network
//	secret files          other users of this machine cannot open them
//
// # What it changes
//
// Next to nothing. Of the platform it reads, asks for the authorization page, and asks the
// token endpoint to refresh a token that does not exist. The stored token is refreshed as
// a call would do it, under the lease of the store, and the new pair is stored before it
// is used; Run returns only after that, whatever becomes of ctx. [Config].NoRefresh leaves
// it alone. A user whose refresh token is refused is marked, as by any call.
//
// The endpoint for webhooks is sent what stores nothing: empty bodies, and one without
// an event. The handler of package webhook answers 400 to that, which its log and its
// [github.com/dispensary-go/dispensary/webhook.Alarm] show.
//
// # What it shows
//
// Rows hold numbers, times, hosts, paths, names of scopes and operations, and the integrator's
// id of the user; no token, no secret, no query, no body, and no text of a foreign error.
package doctor
