// Package integration reads the configuration of a whole integration.
package integration
