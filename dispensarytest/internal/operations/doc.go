// Package operations is the API as data: the table of its operations, and its scopes.
package operations
