// Package pages are the pages for people, and the templates of all of them: the plan
// editor behind a dynamic link, the in-office checkout, and the invitation of a patient.
package pages
