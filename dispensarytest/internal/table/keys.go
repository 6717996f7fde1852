package table

import (
	"slices"
	"time"
)

// By groups rows by keys.
func By[T any](keys ...func(*T) string) Index[T] { return Index[T]{by: keys} }

// ByTime is by, with the rows of a group sorted by a time.
func ByTime[T any](at func(*T) time.Time, keys ...func(*T) string) Index[T] {
	return Index[T]{by: keys, then: func(a, b *T) int { return at(a).Compare(at(b)) }}
}

// Keep keeps the rows that a condition holds for.
func Keep[T any](rows []*T, keep func(*T) bool) []*T {
	return slices.DeleteFunc(rows, func(row *T) bool { return !keep(row) })
}
