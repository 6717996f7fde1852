// Package integration tests package integration with the drivers of all databases.
package integration
