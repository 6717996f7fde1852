// Package tokens keeps the tokens of an application's users and refreshes them: one
// per practitioner or staff member, for thousands of them, on as many machines as
// you run.
//
//	conns, err := tokens.NewConnections(tokens.Config{Client: client, Store: store})
//
//	record, err := conns.Connect(ctx, user, code) // exchanges and saves
//	source := conns.TokenSource(user)             // authorizes calls
//	err = conns.Disconnect(ctx, user)             // revokes and deletes
//
// # Calling as a user
//
// [Connections.TokenSource] gives the source of one user's tokens. Hand it to the
// module's client, which asks it for every call.
//
// An access token lives for two hours. A source returns the one in memory while
// it is valid, in well under a microsecond; shortly before its end it refreshes it
// in the background, and after its end callers wait for the new one. Callers
// share a refresh, and none of them owns it: a caller that is canceled leaves, the
// refresh goes on. Make sources once or anew for every request, as you like.
//
// # Many machines
//
// The [tokenstore.Store] is what replicas have in common. A refresh takes a short lease on
// the user's record, asks the platform while nothing is locked, and commits the
// new pair if the record has not moved. A replica that does not get the lease waits
// for the result of the one that has it; the lease of a machine that died runs out.
// A source compares its token in memory with the store every 30 seconds, so a user who
// connects with another account or disconnects on one replica does so on all of them.
// [tokenstore.MemoryStore] serves one process, package oauth/sqlstore databases; the interface
// is small enough to be put on your own, and package oauth/storetest tests it.
// [tokenstore.Sealed] encrypts what any of them keeps.
//
// # Before a token ends
//
// [Connections.KeepFresh] replaces tokens before they end, of users with recent
// calls, so that no call has to wait. Replicas share its work through the store.
//
// # No token is lost
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
//     [Connections.PendingCommits] and, before the program ends,
//     [Connections.Close];
//   - where a replica was too slow and another one found the old refresh token
//     spent, the pair of the first is still stored when it comes.
//
// Should the platform forget the old refresh token the moment it issues a new
// one, then one loss remains that no client can prevent: an answer that never
// arrives. That user has to authorize again.
//
// # When something is wrong
//
//   - [*ReauthorizeError], which matches [api.ErrReauthorize]: only the user can
//     help. It says who and why, builds the address to send them to, and is
//     remembered in the store. The token stays there: later calls retry a rejected
//     refresh token, at least every 10 minutes, and [Connections.Restore] brings
//     back a user who was marked wrongly.
//   - [*oauth.ConfigError]: the platform rejects the application. No user is marked,
//     and no refresh is tried for a minute. Tokens that are still valid are used.
//     Exchanging a code pauses no refresh.
//   - [*StoreError]: the store failed. Nothing is refreshed without it.
//   - [*api.Error]: the platform or the network failed. Tokens that are still
//     valid are used. The next try waits a second at first, and up to half
//     a minute if failures repeat. While the token endpoint fails for several
//     users in a row, a process sends one request a second, for any of them.
//   - [*api.Error] with the code invalid_grant: the platform rejected the refresh token
//     for the first time. It is retried a minute later, and the second rejection marks the
//     user. So a mistake of the platform that lasts for seconds marks no user.
//   - [*api.Error] that matches [api.ErrUnauthorized]: the API responded to a call
//     with 401, also with the new token that was fetched for it. Try again
//     later, with growing waits. It marks no user, because only the
//     token endpoint knows whether the user has revoked the application. A 401 forces one
//     refresh of a user in 2 minutes.
//
// [Config.Observers] receive what happens to users and to the application, and how
// refreshes go, see [Observer]. If the refresh tokens of one user after another
// are rejected, because scopes were added to the application or the platform is
// unwell, KeepFresh pauses and one alarm is raised: see [MassRejection].
//
// # Clocks
//
// What a source reads from the store was dated by another machine; if the clocks of
// the two differ, a token is refreshed early, or is refused once with 401 and then
// refreshed.
//
// # Secrets
//
// No type of this package prints, logs or encodes a token.
package tokens
