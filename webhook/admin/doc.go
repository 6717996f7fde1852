// Package admin implements a web page for operators of a webhook receiver. It shows how event
// handling performs, why events became dead letters, and where webhooks are missing. Operators
// find an event by its ID, and replay, discard or hasten events one by one or in bulk. A
// [Handler] is an [http.Handler] to mount behind your own login. It works on every
// [engine.Engine].
//
//	var activity admin.Activity // its AttemptEnd is in the Work.Observer of the inbox
//	…
//	page, err := admin.New(admin.Config{
//		Engine:   inbox,
//		Name:     "us/production",
//		Activity: &activity,
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
// A router of another package needs all paths below one prefix: in chi,
// router.Mount("/ops/webhooks", http.StripPrefix("/ops/webhooks", page)).
//
// The page has no login and no cookies: every visitor may do everything, unless [Config].ReadOnly
// reports that the user may only read. If your program has several engines, mount one page for each.
// Package integration connects all of this.
//
// # Recovering from failures
//
// The overview shows the dead letters of the last hour and of the hour before, draws the attempts
// of this process in the last 24 hours, and lists all causes of dead letters, the newest one
// first. Deploy the fix, and use "Replay" in the row of its cause. This starts a dry run: it
// counts the events by type, clinic and reason, and can limit them to those since midnight, to
// the last hour, or to a number. Only the button of the dry run changes events.
//
// The search field at the top finds an event by its ID or a part of it, by a request ID of the
// platform, and all events of a clinic by the clinic's ID. For the whole ID of an event that is
// not stored, it reports whether the event was handled or discarded. The page of an event lists
// its last failed attempts with the request IDs for the platform's support.
//
// A bulk change runs for up to 5 seconds per request. Then the page shows the number of remaining
// events and continues by itself until somebody stops it, or without scripts by a button. At the
// end it has a button for the events that match by then. You can interrupt it at any time, even by
// a restart, and continue from the same URL: each event of the dry run is changed once, even if it
// becomes a dead letter again. See [engine.Engine.Replay]. The page reports the number of changed
// events if the same process has changed them.
//
// # Patient data
//
// Pages show keys, types, clinic IDs, times, reasons and request IDs. The body of an event and
// the text of its error may contain patient data. A button shows them for one response, after
// [Observer].BodyOpened has recorded the access. Without BodyOpened, no body can be opened.
// Browsers do not store the pages.
//
// # Browser security
//
// Pages load nothing from other hosts. Their script refreshes the overview and lists every 10
// seconds, continues bulk changes and copies IDs. All pages work without it. A form from another
// site's page is rejected ([http.CrossOriginProtection]), so no token is needed. If only the
// network guards the pages, set [Config].Hosts too.
package admin
