package sqlstore

// SQLiteDSN lets processes of tests open a file by its name.
var SQLiteDSN = sqliteDSN
