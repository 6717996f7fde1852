// Package cookbook has the tasks of docs/cookbook.md that take several packages, as
// Example functions. It contains only tests.
package cookbook
