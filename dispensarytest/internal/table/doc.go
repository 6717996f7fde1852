// Package table holds rows that forks share until one of them is written: tables with
// indexes, maps and a search index. It knows nothing of what the rows are. None of its
// types is safe for concurrent use; their owner's lock guards them.
package table
