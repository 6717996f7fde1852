package sqlstore

// SQLiteDSN lets processes of tests open a file that they are told of.
var SQLiteDSN = sqliteDSN
