// Package sqlkv keeps the entries of a [watermillinbox.Inbox] in a table of
// PostgreSQL, MySQL, MariaDB or SQLite, through database/sql: for shops with a
// broker that stores no keys and values, such as RabbitMQ or Kafka, beside a
// database that they have anyway.
//
//	db, err := sql.Open("pgx", os.Getenv("DATABASE_URL"))
//	err = sqlkv.Migrate(ctx, db, sqlkv.PostgreSQL, sqlkv.Options{})
//	store, err := sqlkv.New(db, sqlkv.PostgreSQL, sqlkv.Options{})
//
// Every write is one statement, and is as durable as the database makes commits:
// leave synchronous_commit of PostgreSQL and innodb_flush_log_at_trx_commit of
// MySQL as they come. With SQLite use [SQLiteDSN], or package sqlinbox instead of
// all this.
//
// The package imports no driver. It is tested with github.com/jackc/pgx/v5,
// github.com/go-sql-driver/mysql and modernc.org/sqlite.
package sqlkv
