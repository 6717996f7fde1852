// Package integration makes a whole integration of one configuration: the accounts of
// the users and their browser flow, the receiver of webhooks and its inbox, the
// reconcilers, and the answers to a balancer; and ends all of it in the right order.
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
// What can be configured is in [Config], what only the program can say in [Setup]. Every
// part is made by its own package, [accounts.New], [webhook.NewHandler] and so on, and can
// be taken out and used; a program with other needs makes its parts itself. The module
// brings in the drivers of PostgreSQL, MySQL and SQLite, and River.
//
// # Several environments
//
// Each environment has an application of its own, with credentials and a secret for
// webhooks. The United States and Canada are two; which one a user belongs to says
// [accounts.Config].Locate. They share one store and one inbox, whose keys name the
// environment. Two applications in one environment are two integrations, with a store and
// an inbox each.
//
// # The rate limit
//
// Each application has one limiter, for all calls of its users' clients, token requests,
// reconcilers and refreshes in the background. See [Application].RateLimit and package ratelimit.
//
// # Traces and metrics
//
// [Setup].Telemetry observes all parts. For OpenTelemetry, set it to the result of
// dispensaryotel.New, which is a module of its own.
//
// # The tables
//
// [Open] makes the tables that are missing, and only looks at those that are there:
// see [sqlstore.Schema], [pgstore.Schema], [sqlinbox.Schema] and [riverinbox.Schema] for programs
// that may not. With sqlite: the program can have tables in the same file, [Integration.DB], and a
// handler writes them in the transaction that stores the event as handled: see
// [sqlinbox.InTransaction], and [riverinbox.InTransaction] for postgres:. In that database the
// inbox has the first schema of the search path, where no other client of River may work: a
// program that uses River adds ?search_path=… to the address, with a schema that exists.
package integration
