// Package clock is the time of a platform: a clock that can be frozen and advanced, the
// tasks that wait for it, and the notifier that wakes what watches a platform.
//
// Where its locks stand among the platform's is said in package store.
package clock
