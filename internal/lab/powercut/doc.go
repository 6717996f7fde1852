// Package powercut cuts the power of SQLite files. It records what SQLite does to the files
// of a folder, in one order with what a program was promised meanwhile, and makes from it
// the folders that a machine could have found after the loss of its power at any moment:
// what was not synced is there, is not there, or is there in part and in any order.
//
// Its tests hold packages webhook/sqlinbox and oauth/sqlstore to their promises in each of
// these folders.
package powercut
