// Package cookbook contains the tasks of docs/cookbook.md with several packages, as Example functions. It
// contains only tests.
package cookbook
