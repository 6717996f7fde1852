// Package people are the actions of those who use the platform itself: patients who
// register and order, practitioners who write plans, clinics that give and take access, a
// catalog that changes. Actions make events and hand them to the webhook sender.
package people
