// Package ids makes ids, secrets and numbers that follow from a seed.
package ids
