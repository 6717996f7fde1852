// Package columns holds tests only: they store scalars in columns of real databases.
package columns
