// Package view is the JSON of the platform's resources, as answers and the data of events
// show them.
package view
