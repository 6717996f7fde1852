// Package powercut simulates power cuts of SQLite databases. It records all operations of SQLite
// on the files of a folder, in order with the promises given to a program. From this log it
// generates the folders that a machine might find after a power cut at any moment: unsynced writes
// are complete, missing, or partly stored in any order.
//
// Its tests check the promises of packages webhook/sqlinbox and oauth/sqlstore in each of these
// folders.
package powercut
