// Package doctor checks an integration, from the URLs of the platform to the dead letters of
// the inbox. Its report has one row per check, with the result, its consequence in production
// and a fix.
//
//	report, err := doctor.Run(ctx, doctor.Config{
//		OAuth: oauth.Config{Site: site, ClientID: id, ClientSecret: secret, RedirectURL: redirect},
//		Store: store, User: "user-17", Operations: []string{"patients.create"},
//		Webhook: doctor.Webhook{URL: "https://ehr.example/webhooks", Secrets: secrets, Challenge: challenge},
//		Inbox: inbox,
//	})
//
// # Rows
//
// A [Row] passes, warns, fails or is skipped. A check is skipped if its configuration is missing
// or if one of its prerequisites fails, so the report shows each cause once.
//
//	site address          the API responds at its URL
//	TLS                   the API's certificate is valid, and for how long
//	clock                 the clocks of this machine and the platform agree
//	client credentials    the token endpoint knows the application
//	redirect address      the authorization page knows the redirect URL
//	token                 a user's stored token can be used
//	token owner           the platform account of the token
//	token scopes          the token has the scopes of your operations
//	token refresh         the platform refreshes the token
//	webhook address       your endpoint is reachable
//	webhook certificate   your endpoint's certificate is valid, and for how long
//	webhook time          your endpoint responds within the platform's 2 seconds
//	webhook redirects     your endpoint does not redirect
//	webhook gone          your endpoint does not respond with 410
//	webhook signature     your endpoint accepts requests signed with the secret
//	webhook challenge     your endpoint returns the challenge token
//	webhook forgery       your endpoint rejects wrong signatures
//	webhook replay        your endpoint rejects old signatures
//	webhook body          signed bodies reach your endpoint byte for byte
//	webhook activation    a request has sent the clinic key, so the platform sends webhooks
//	delivery log          the platform's delivery log is readable
//	delivery failures     failed deliveries and their reasons
//	delivery switch-off   how soon the platform disables the endpoint
//	delivery order        events that arrived after a newer event of the same object
//	inbox                 the inbox responds
//	inbox schema          the inbox has the tables of this release
//	inbox waiting         the age of the oldest waiting event
//	inbox dead letters    the number of dead letters
//	inbox sealed          stored events can be decrypted
//	reconcile             a replica looks for missed webhooks
//	store                 the store responds and accepts writes
//	store schema          the store has the tables of this release
//	store sealed          tokens are encrypted at rest
//	store users           the users who must authorize again
//	store lease           no refresh is stuck
//	database TLS          the network cannot read connections to databases
//	secret files          other users of this machine cannot open them
//
// # Side effects
//
// Doctor reads from the platform, loads the authorization page, and asks the token endpoint to
// refresh a made-up token. It tests writes to the token store, and takes a lease for a moment.
//
// It refreshes the stored token as a call would, under the store's lease, and stores the new
// pair before it uses it. Run returns only after that, even if ctx ends. [Config].NoRefresh
// leaves the token unchanged. A rejected refresh token counts as it does in a call, so a second
// rejection marks the user.
//
// The webhook endpoint receives requests that store nothing: empty bodies, and one body without
// an event. The handler of package webhook responds to that body with 400, visible in its log
// and its [github.com/dispensary-go/dispensary/webhook.Alarm].
//
// # Privacy
//
// Rows contain numbers, times, hosts, paths, names of scopes and operations, and your id of the
// user. They contain no token, secret, query or body, and no text of a foreign error.
package doctor
