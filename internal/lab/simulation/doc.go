// Package simulation holds the parts of this module that several replicas share against a
// scheduler which decides who goes on, what is lost on the way, who dies, and when: see
// package schedule. Its tests make thousands of schedules, dozens or a few hundred decisions
// long, of small worlds: a few users, a few events, two or three replicas, and the platform
// of package dispensarytest.
//
// Each family has a world of its own: TestTokens, TestEvents, TestWrites and TestCatalog
// look at one part, and TestWhole has the worlds of tokens, events and the catalog in the
// same replicas, whose handlers read and write as the users.
//
//	go test ./internal/lab/simulation -run TestTokens -first 17 -schedules 1
//
// makes schedule 17 of one family again, and DISPENSARY_TEST_FULL=1 makes a million.
package simulation
