module github.com/dispensary-go/dispensary/integration/sqlite

go 1.26.0

require (
	github.com/dispensary-go/dispensary v0.0.0
	github.com/dispensary-go/dispensary/oauth/sqlstore v0.0.0
	github.com/dispensary-go/dispensary/webhook/sqlinbox v0.0.0
)

require (
	github.com/dustin/go-humanize v1.0.1 // indirect
	github.com/google/go-querystring v1.2.0 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/hashicorp/go-cleanhttp v0.5.2 // indirect
	github.com/hashicorp/go-retryablehttp v0.7.8 // indirect
	github.com/mattn/go-isatty v0.0.24 // indirect
	github.com/ncruces/go-strftime v1.0.0 // indirect
	github.com/remyoudompheng/bigfft v0.0.0-20230129092748-24d4a6f8daec // indirect
	golang.org/x/mod v0.42.0 // indirect
	golang.org/x/oauth2 v0.37.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/tools v0.51.0 // indirect
	modernc.org/libc v1.77.1 // indirect
	modernc.org/mathutil v1.7.1 // indirect
	modernc.org/memory v1.12.1 // indirect
	modernc.org/sqlite v1.60.1 // indirect
)

replace (
	github.com/dispensary-go/dispensary => ../../
	github.com/dispensary-go/dispensary/oauth/sqlstore => ../../oauth/sqlstore
	github.com/dispensary-go/dispensary/webhook/sqlinbox => ../../webhook/sqlinbox
)
