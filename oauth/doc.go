// Package oauth connects users of your program to the platform with OAuth. It builds the
// authorization URL, reads the callback, exchanges the code for a token, and refreshes and
// revokes tokens.
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
// # Usage
//
// A [Client] stores no tokens. If your program has users, you rarely call it yourself:
//
//   - Package oauth/tokens stores the tokens of all users and refreshes each of them once
//     across all replicas.
//   - Package oauth/connect serves the browser flow as an http.Handler.
//   - Package oauth/accounts combines both for one or more environments.
//
// [FromOAuth2] adapts a token source of golang.org/x/oauth2. That library cannot exchange or
// refresh tokens of the platform itself, because the platform expects JSON and wraps its
// responses.
//
// # Guarantees
//
//   - The API does not specify whether a refresh replaces the refresh token. Assumption: it
//     may, and the old refresh token works until the new access token is first used. So store
//     the result of [Client.Refresh] before you use its access token.
//   - The remaining life of a token is computed from the platform's own clock. A replica whose
//     clock is wrong still refreshes its own tokens in time.
//
// # Errors
//
//   - [ErrCanceled]: the user pressed cancel on the authorization page.
//   - [ErrState], [ErrNoCode] or another [*CallbackError]: the callback is not usable. The
//     user can start again.
//   - [ErrCodeRejected]: the platform rejects the code. The user can start again.
//   - [*ConfigError]: the platform rejects the application. Only its operator can fix that.
//   - An error that matches [api.ErrReauthorize]: only the user can fix it, by authorizing
//     again. There is no refresh token, or the platform no longer accepts it.
//   - [*api.Error]: any other failed request.
//
// # Privacy
//
// No type of this package prints, logs or encodes a token, a code or a client secret, even in
// an unexported field of your own struct. Only [api.Secret.Reveal] returns it.
package oauth
