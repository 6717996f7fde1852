// Package sqldb contains what the stores on SQL share: a [Schema] with a version, a [Pool] that leaves
// servers that reject writes, and [Retry] for statements that lost to concurrent ones.
//
// The stores are separate modules that may have another version than this package, so its exported
// names must not change.
package sqldb
