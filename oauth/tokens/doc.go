// Package tokens stores and refreshes the tokens of your users, one token for each
// practitioner or staff member. It serves thousands of users on any number of replicas.
//
//	conns, err := tokens.NewConnections(tokens.Config{Client: client, Store: store})
//
//	record, err := conns.Connect(ctx, user, code) // exchanges and saves
//	source := conns.TokenSource(user)             // authorizes calls
//	err = conns.Disconnect(ctx, user)             // revokes and deletes
//
// # Usage
//
// [Connections.TokenSource] returns the source of one user's tokens. Pass it to the client of
// this module, which asks it for a token on every call. Create sources once or for every
// request.
//
// An access token expires after two hours. While it is valid, a source returns it from memory
// in well under a microsecond. In its last 5 minutes, or in the last quarter of a shorter
// lifetime, the source refreshes the token in the background. After that, callers wait for the
// new token. All callers share one refresh. If a caller's context is canceled, that caller
// returns and the refresh continues.
//
// [Connections.KeepFresh] refreshes the tokens of users with recent calls before they expire,
// so that no call has to wait. Replicas share its work through the store.
//
// # Replicas
//
// Replicas share state only through the [tokenstore.Store]. To refresh a token, a replica
// takes a short lease on the user's record, calls the platform without locking anything, and
// commits the new token pair if the record has not changed. A replica that does not get the
// lease waits for the result of the lease owner. The lease of a crashed replica expires.
//
// A source compares its token in memory with the store every 30 seconds. So if a user
// disconnects or connects another account on one replica, all replicas follow.
//
// [tokenstore.MemoryStore] serves one process, and package oauth/sqlstore serves databases. To
// use your own storage, implement the small interface and test it with package
// oauth/storetest. [tokenstore.Sealed] encrypts the tokens in any store.
//
// # Guarantees
//
// The API does not document whether a refresh replaces the refresh token. Assumption: it may,
// and the old refresh token works until the new access token is first used. Under this
// assumption no user is lost:
//
//   - A new pair is stored before its access token is used.
//   - If the response to a refresh is lost, the old refresh token is retried.
//   - If the store does not accept a new pair, the process keeps the pair and retries the
//     write until it succeeds. Each failure is logged as an error. See
//     [Connections.PendingCommits], and call [Connections.Close] before the program ends.
//   - If a replica was too slow and another replica then found the old refresh token spent,
//     the pair of the slow replica is still stored when it arrives.
//
// If the platform invalidates the old refresh token as soon as it issues a new one, one loss
// remains, and no client can prevent it: a response that never arrives. That user must
// authorize again.
//
// # Errors
//
//   - [*ReauthorizeError], which matches [api.ErrReauthorize]: the user must authorize again.
//     The error contains the user and the reason, and builds the URL of the authorization
//     page. The store keeps this mark and the token. If only the refresh token was rejected,
//     calls use the access token until it expires. Later calls retry a rejected refresh
//     token, at least every 10 minutes. [Connections.Restore] removes a wrong mark.
//   - [*oauth.ConfigError]: the platform rejects the application. No user is marked, and no
//     refresh is sent for a minute. Valid tokens are still used. A failed exchange of a code
//     pauses no refresh.
//   - [*StoreError]: the store failed. No token is refreshed without the store.
//   - [*api.Error]: the platform or the network failed. Valid tokens are still used. The next
//     refresh waits 1 second, and up to 30 seconds if failures repeat. If the token endpoint
//     fails for 5 different users in a row, each process sends only one request per second for
//     all users until the endpoint works again.
//   - [*api.Error] with the code invalid_grant: the platform rejected the refresh token, and
//     the user is not marked yet. See below.
//   - [*api.Error] that matches [api.ErrUnauthorized]: the API responded to a call with 401,
//     even with a newly refreshed token. Retry later with growing waits. The 401 alone marks no
//     user. It forces at most one refresh of a user in 2 minutes.
//
// # Revoked users
//
// One rejection may be a fault of the platform, so two witnesses mark a user:
//
//   - The API responds with 401 to an access token that has not expired, and the token endpoint
//     rejects the refresh token (invalid_grant). The first call of a user who has revoked the
//     application marks the user.
//   - The token endpoint rejects the refresh token twice, a minute or more apart.
//
// A fault of the platform's login can cause both responses of the first rule for all users. So
// that rule applies only if the platform rejects no other user, as far as the process knows:
//
//   - It remembers no rejection of another user's refresh token. It remembers rejections for 5
//     minutes from the first one, and after [MassRejection] until 5 minutes after the pause. A
//     successful refresh ends the memory.
//   - It calls [Config].Clinic with the valid token of another user, from memory or of one of the
//     first 20 users in the store, and the API accepts this token. If it finds no such token, or
//     Clinic is nil, the memory decides alone.
//
// Otherwise the second rule decides. So a fault that ends within a minute marks nobody, except
// the first user of a process that could not ask for another user. Such a mark is removed by
// the user's first call that is at least 75 seconds later.
//
// # Monitoring
//
// [Config.Observers] receive the changes of users and of the application, and the result of
// each refresh. See [Observer]. If the platform rejects the refresh tokens of one user after
// another, because scopes were added to the application or the platform is faulty, KeepFresh
// pauses and one alarm is raised. See [MassRejection].
//
// # Clocks
//
// The expiry of a stored token was computed with the clock of the replica that stored it. If
// the clocks of two replicas differ, a token is either refreshed early, or rejected once with
// 401 and then refreshed.
//
// # Privacy
//
// No type of this package prints, logs or encodes a token.
//
// API section: "Authentication".
package tokens
