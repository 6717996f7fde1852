// Package columns contains only tests. They store scalars of package api in columns of real
// databases.
package columns
