// Package engine describes inboxes that store the events they accept and also handle them.
// Packages memoryinbox, sqlinbox and riverinbox implement [Engine]. Open one of them to receive
// webhooks.
//
//	dead := engine.Filter{States: []engine.State{engine.StateDead}}
//	for event, err := range engine.All(ctx, inbox, dead) {
//		if err != nil {
//			return err
//		}
//		fmt.Println(event.Key, event.Reason)
//	}
//
// Use this package to look into an inbox from an operations page, a tool or a health check. List
// events with [All], count them with [Engine.Count], and replay or discard dead letters with
// [Engine.Replay] and [Engine.Discard].
package engine
