// Package ratelimit keeps the requests of a process below the platform's limit. It knows
// priorities: see [Limiter].
package ratelimit
