// Package behavior is the table of the points that the API leaves open: what each is, how
// it can be decided, which operations it touches, and what is in force.
package behavior
