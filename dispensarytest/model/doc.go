// Package model holds the nouns of the platform: patients, plans, orders, products,
// events and their deliveries, what is asked for when one is made or changed, and the
// faults that can be set. Package dispensarytest hands them out as copies.
package model
