// Package admin is a page for the people who run a receiver of webhooks: what waits and
// what was given up, by type, age, clinic and reason; replaying and discarding, one by
// one or many at once; outages, runs of the reconciler, and accounts that must authorize
// again. It is an [http.Handler] to mount behind a login of your own, and works on every
// [engine.Engine].
//
//	page, err := admin.New(admin.Config{
//		Engine:   inbox,
//		Alarms:   map[string]*webhook.Alarm{"": alarm},
//		Accounts: users, // an *accounts.Accounts
//		Observer: admin.Observer{
//			BodyOpened: func(r *http.Request, key webhook.Key) error {
//				return audit.Record(r.Context(), userOf(r), "opened the body of "+key.String())
//			},
//		},
//	})
//	…
//	mux.Handle("/ops/webhooks/", staffOnly(http.StripPrefix("/ops/webhooks", page)))
//	…
//	clinics, err := reconcile.New(reconcile.Config{Observer: reconcile.Observer{RunEnd: page.RunEnd}, …})
//
// It has no login, and no cookies: those who get through to it may do all that it can.
// Programs with several engines mount one page for each.
//
// # A bad night
//
// The overview says how much waits and for how long, what was given up and why, and
// whether the platform's requests fail. On the page of dead letters choose the reason
// that was put right, and "Replay these". What follows is a dry run: it says how many
// events that would be, of which types, clinics and reasons, and takes a number that they
// are at most. Only the button on it changes anything.
//
// A replay of many takes as long as a request may, a few seconds. Then the page shows how many
// are left, with a button to continue. At the end it counts the others that match by then, with
// a link to their dry run. A replay can be interrupted at any time, by the end of
// the program too, and continued from the same address: each event that the dry run
// counted is handled once more and no more, also where it dies again. See
// [engine.Engine.Replay].
//
// # Patient data
//
// Pages show keys, types, clinic ids, times and reasons. The body of an event, and the
// text of the error that it died with, may hold patient data. They are closed on every
// page; a button opens those of one event, for that answer only. Before it is shown,
// [Observer].BodyOpened is called, which is to record who opened it; without one, no body
// can be opened. Nothing is stored by the browser.
//
// # In the browser
//
// Pages need no scripts and load nothing from elsewhere. Requests that change something,
// or open a body, are refused if they come from another site's page
// ([http.CrossOriginProtection]), so that no token is needed against such requests. If only
// the network guards the pages, set [Config].Hosts too.
package admin
