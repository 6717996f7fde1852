// Package clock is the time of a platform: a clock that can be frozen and advanced, the
// tasks that wait for it, and the notifier that wakes what watches a platform.
//
// The clock's lock is taken after every other one, but for the notifier's.
package clock
