// Package searchbench holds a benchmark only: the index of package catalogsync beside what
// one would take from a shelf to search a catalog while one types. It is a separate module,
// so that no program depends on what it is compared to.
package searchbench
