module github.com/dispensary-go/dispensary/integration/mysql

go 1.26.0

require (
	github.com/dispensary-go/dispensary v0.0.0
	github.com/dispensary-go/dispensary/oauth/sqlstore v0.0.0
	github.com/go-sql-driver/mysql v1.10.1
)

require (
	filippo.io/edwards25519 v1.2.0 // indirect
	github.com/google/go-querystring v1.2.0 // indirect
	github.com/hashicorp/go-cleanhttp v0.5.2 // indirect
	github.com/hashicorp/go-retryablehttp v0.7.8 // indirect
	golang.org/x/oauth2 v0.37.0 // indirect
)

replace (
	github.com/dispensary-go/dispensary => ../../
	github.com/dispensary-go/dispensary/oauth/sqlstore => ../../oauth/sqlstore
)
