// Package hidden contains the parts of package api that other packages of this module need and its
// users must not see.
package hidden
