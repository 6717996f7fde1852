package sqlstore

// DSN lets tests open files as other programs do.
var DSN = dsn
