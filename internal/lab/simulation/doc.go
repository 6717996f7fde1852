// Package simulation contains only tests. They run several replicas of this module under a
// scheduler, see package schedule. The scheduler decides which call continues or is lost, and when
// a replica is killed. The tests run thousands of schedules of dozens to a few hundred decisions.
// Their worlds are small: a few users, a few events, two or three replicas, and the fake platform
// of package dispensarytest.
//
// TestTokens, TestEvents, TestWrites and TestCatalog each test one part in a separate world.
// TestWhole combines tokens, events and the catalog in the same replicas. Its handlers read and
// write as the users.
//
//	go test ./internal/lab/simulation -run TestTokens -first 17 -schedules 1
//
// repeats schedule 17 of one test. DISPENSARY_TEST_FULL=1 runs 270,000 schedules.
package simulation
