// Package integration runs a complete integration from one configuration: the accounts of your
// users and their browser flow, the webhook endpoint and its inbox, the search for missed
// webhooks, token refreshes in the background, and health checks. It ends them in the right order.
//
//	config, err := integration.Load(os.Environ()) // or LoadFile
//	…
//	app, err := integration.Open(ctx, config, integration.Setup{
//		Work:     webhook.Work{Handle: router.Dispatch, Order: webhook.ByPatient},
//		Connect:  connect.Config{User: userOfSession},
//		Accounts: accounts.Config{Tokens: tokens.Config{Verify: ownClinic}}, // rejects accounts of other clinics
//		Logger:   slog.Default(),
//	})
//	…
//	mux := http.NewServeMux()
//	app.Mount(mux)
//	mux.Handle("/operations/", staffOnly(http.StripPrefix("/operations", app.Operations)))
//	listener, err := net.Listen("tcp", ":8080")
//	…
//	err = app.Serve(ctx, &http.Server{Handler: mux, ReadTimeout: 10 * time.Second}, listener) // until a signal
//
// # Usage
//
// [Config] contains the settings of a file or of environment variables, and [Setup] your
// functions. Each part comes from its own package, such as [accounts.New] and
// [webhook.NewHandler], and is a field of [Integration] for direct use. If your program has
// other needs, create the parts yourself.
//
// # Databases
//
// A program imports the driver of each kind of database that it uses, as with database/sql. Stores and
// inboxes in memory need none.
//
//	import _ "github.com/dispensary-go/dispensary/integration/sqlite" // or postgres, or mysql
//
// [Open] creates or migrates tables, unless they have the version of this release. A handler can write
// your own tables in the transaction that marks the event as handled. See the drivers' packages, which
// are modules of their own.
//
// # Environments
//
// Each environment has its own application, with its own credentials and webhook secret. The
// United States and Canada are two environments, and [accounts.Config].Locate returns the
// environment of a user. All environments share one store and one inbox, whose keys contain the
// environment. If you have two applications in one environment, open two integrations, each with
// its own store and inbox.
//
// # Rate limit
//
// Each application has one limiter for all calls of its users' clients, token requests,
// reconcilers and background refreshes. See [Application].RateLimit and package ratelimit.
//
// # Telemetry
//
// [Setup].Telemetry observes all parts. For OpenTelemetry, set it to the result of
// dispensaryotel.New, a module of its own.
package integration
