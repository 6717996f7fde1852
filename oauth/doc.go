// Package oauth is the protocol between an application and the platform's OAuth
// endpoints: the authorization address, the callback, and the requests that
// exchange a code, refresh and revoke tokens.
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
//	token, err := client.Exchange(ctx, code)
//
// A [Client] keeps nothing. Programs with users rarely call it themselves: package
// oauth/tokens stores the tokens of all users and refreshes each of them once for
// all replicas, package oauth/connect is the browser flow as an http.Handler, and
// package accounts puts both together for several environments.
//
// # Errors
//
// A user who pressed cancel is [ErrCanceled]; the other ways a callback can end
// are in errors.go. [*ConfigError] says that the platform refuses the application:
// only its operator can help. An error that matches [api.ErrReauthorize] says that only
// the user can: no refresh token is left, or the platform does not know it any more.
// Everything else is an [*api.Error].
//
// # Refresh tokens that change
//
// The API does not say whether a refresh replaces the refresh token.
// Assumption: it may, and the old one works until the new access token is first
// used. So store what [Client.Refresh] returns before its access token is used.
//
// # Clocks
//
// How long a token still lives is worked out from the platform's own clock, so
// a machine whose clock is wrong refreshes in time what it fetched itself.
//
// # Secrets
//
// No type of this package prints, logs or encodes a token, a code or a client
// secret; [api.Secret.Reveal] is the only way to one. This holds in unexported
// fields of your structs too.
//
// # x/oauth2
//
// [FromOAuth2] uses a token source of golang.org/x/oauth2. That library cannot exchange or
// refresh here by itself, because the platform expects JSON and wraps its responses.
package oauth
