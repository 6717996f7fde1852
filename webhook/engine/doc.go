// Package engine describes an inbox that stores the events it accepts, and handles them.
// Packages memoryinbox, sqlinbox and riverinbox implement [Engine]. Programs that receive
// webhooks open one of them.
//
// The package is for what looks into an inbox: operations pages, tools and health checks. List
// events with [All], count them with [Engine.Count], and replay or discard dead letters.
package engine
