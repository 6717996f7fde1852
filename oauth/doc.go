// Package oauth gets, keeps and renews the tokens that calls are authorized
// with: one per practitioner or staff member, for thousands of them, on as many
// machines as you run.
//
// # Connecting a user
//
// A [Client] is one application in one environment. A [Handler] is the whole
// browser flow for it: mount it, and send users to its connect page.
//
//	handler, err := oauth.NewHandler(oauth.HandlerConfig{
//		Client: client, Store: store, StateKeys: keys,
//		User: func(r *http.Request) (string, error) { … }, // from your session
//	})
//	mux.Handle("/dispensary/", handler) // /dispensary/connect, /dispensary/callback
//
// Every way a visit can end has an [Outcome]. Package accounts
// puts clients, store and handlers of several environments together. What the handler does can be done by hand, too: send the browser to
// the platform's authorization page, and turn the code that comes back into a
// [Token]:
//
//	client, err := oauth.New(oauth.Config{
//		Site: site, ClientID: id, ClientSecret: secret,
//		RedirectURL: "https://ehr.example/dispensary/callback",
//	})
//
//	// the user presses "connect"
//	state := oauth.NewState() // keep it in the user's session
//	address, err := client.AuthorizeURL(state)
//	http.Redirect(w, r, address, http.StatusSeeOther)
//
//	// the platform sends the browser back to RedirectURL
//	code, err := oauth.ParseCallback(r.URL.Query(), state)
//	_, err = client.Connect(ctx, store, user, code, nil) // exchanges and saves
//
// A user who pressed cancel is [ErrCancelled]; every other error of the way is
// told apart in errors.go. [Client.Disconnect] revokes and forgets.
//
// # Calling as a user
//
// [Client.TokenSource] gives the source of one user's tokens. Hand it to the
// module's client, which asks it for every call:
//
//	source := client.TokenSource(store, user)
//
// An access token lives for two hours. A source returns the one in memory while
// it is valid, in well under a microsecond; shortly before its end it renews it
// in the background, and after its end callers wait for the new one. Callers
// share a refresh, and none of them owns it: who is cancelled leaves, the
// refresh goes on. Make sources once or anew for every request, as you like.
//
// # Many machines
//
// The [Store] is what replicas have in common. A refresh takes a short lease on
// the user's record, asks the platform while nothing is locked, and commits the
// new pair if the record has not moved. Who does not get the lease waits for
// the result of who has it; the lease of a machine that died runs out.
// [MemoryStore] serves one process; the interface is small enough to be put on
// your own database.
//
// # Before a token ends
//
// A [Refresher] replaces tokens before they end, of users who were in use lately,
// so that no call has to wait. Replicas share its work through the store, which
// has to be a [Claimer].
//
// # Refresh tokens that change
//
// The API does not say whether a refresh replaces the refresh token.
// Assumption: it may, and the old one works until the new access token is first
// used. Users are not lost to that:
//
//   - a new pair is in the store before its access token is used;
//   - where the answer of a refresh is lost, the old refresh token is tried
//     again;
//   - where the store does not take a new pair, the pair is kept and written
//     again until it does, with an error in the log each time: see
//     [Client.Unwritten] and, before the program ends, [Client.Shutdown];
//   - where a replica was too slow and another one found the old refresh token
//     spent, the pair of the first is still stored when it comes.
//
// Should the platform forget the old refresh token the moment it issues a new
// one, then one loss remains that no client can prevent: an answer that never
// arrives. That user has to authorize again.
//
// # When something is wrong
//
//   - [*ReauthorizeError], which matches [ErrReauthorize]: only the user can
//     help. It says who and why, builds the address to send them to, and is
//     remembered in the store. The token stays there: a refresh token that was
//     refused is tried again by a later call, less and less often, and
//     [Client.Restore] brings back who was marked wrongly.
//   - [*ConfigError]: the platform refuses the application. No user is marked,
//     and no refresh is tried for a minute.
//   - [*StoreError]: the store failed. Nothing is refreshed without it.
//   - [*api.Error]: the platform or the network failed. Tokens that are still
//     valid are used on; the next try waits a second at first, and up to half
//     a minute when failures repeat. While the token endpoint fails for several
//     users in a row, a process asks it once a second, for whoever comes.
//   - [*api.Error] that matches [api.ErrUnauthorized]: the API answered a call
//     with 401, also with the new token that was fetched for it. Try again
//     later, with growing waits. It says nothing about the user, whom only the
//     token endpoint knows, so nobody is marked. Where it happens to several
//     users it is taken for a spell of the API, and a 401 forces no refresh for a
//     minute.
//
// [Config.OnEvent] is told of what happens to users and to the application: see
// [Event]; [Config.Observers] are told how refreshes and calls go. When the refresh
// tokens of one user after another are refused, because scopes were added to the
// application or the platform is unwell, a breaker pauses the refresher, raises one
// alarm, and keeps everybody else from being marked: see [BreakerPolicy].
//
// # Clocks
//
// How long a token still lives is worked out from the platform's own clock, so
// a machine whose clock is wrong renews in time what it fetched itself. What it
// reads from the store was dated by another machine; if the two differ, a token
// is renewed early, or is refused once with 401 and then renewed.
//
// # Secrets
//
// No type of this package prints, logs or encodes a token, a code or a client
// secret; [api.Secret.Reveal] is the only way to one. One gap is Go's own: fmt
// reads the unexported fields of your structs without asking their types, so
// keep a [Token] or [Config] there behind a pointer.
//
// # x/oauth2
//
// [Token.OAuth2] and [FromOAuth2] connect to golang.org/x/oauth2. The platform
// takes JSON and wraps its answers, so that library cannot exchange or refresh
// here by itself.
package oauth
