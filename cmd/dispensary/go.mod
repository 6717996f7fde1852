module github.com/dispensary-go/dispensary/cmd/dispensary

go 1.26.0

require (
	github.com/chromedp/cdproto v0.159.0
	github.com/chromedp/chromedp v0.23.0
	github.com/dispensary-go/dispensary v0.0.0
	github.com/itchyny/gojq v0.12.20
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.3
	github.com/spf13/cobra v1.10.2
	github.com/spf13/pflag v1.0.9
	github.com/stretchr/testify v1.12.1
	github.com/zalando/go-keyring v0.2.8
	golang.org/x/mod v0.42.0
	golang.org/x/term v0.47.0
)

require (
	filippo.io/edwards25519 v1.2.0 // indirect
	github.com/danieljoos/wincred v1.2.3 // indirect
	github.com/dispensary-go/dispensary/integration/mysql v0.0.0
	github.com/dispensary-go/dispensary/integration/postgres v0.0.0
	github.com/dispensary-go/dispensary/integration/sqlite v0.0.0
	github.com/dispensary-go/dispensary/oauth/sqlstore v0.0.0 // indirect
	github.com/dispensary-go/dispensary/ratelimit/pgstore v0.0.0 // indirect
	github.com/dispensary-go/dispensary/webhook/riverinbox v0.0.0 // indirect
	github.com/dispensary-go/dispensary/webhook/sqlinbox v0.0.0 // indirect
	github.com/dustin/go-humanize v1.0.1 // indirect
	github.com/go-json-experiment/json v0.0.0-20260213210345-44df1a37e875 // indirect
	github.com/go-sql-driver/mysql v1.10.1 // indirect
	github.com/godbus/dbus/v5 v5.2.2 // indirect
	github.com/google/go-querystring v1.2.0 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/hashicorp/go-cleanhttp v0.5.2 // indirect
	github.com/hashicorp/go-retryablehttp v0.7.8 // indirect
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/itchyny/timefmt-go v0.1.9 // indirect
	github.com/jackc/pgpassfile v1.0.0 // indirect
	github.com/jackc/pgservicefile v0.0.0-20240606120523-5a60cdf6a761 // indirect
	github.com/jackc/pgx/v5 v5.12.0 // indirect
	github.com/jackc/puddle/v2 v2.2.3 // indirect
	github.com/mattn/go-isatty v0.0.24 // indirect
	github.com/ncruces/go-strftime v1.0.0 // indirect
	github.com/remyoudompheng/bigfft v0.0.0-20230129092748-24d4a6f8daec // indirect
	github.com/riverqueue/river v0.51.1 // indirect
	github.com/riverqueue/river/riverdriver v0.51.1 // indirect
	github.com/riverqueue/river/riverdriver/riverpgxv5 v0.51.1 // indirect
	github.com/riverqueue/river/rivershared v0.51.1 // indirect
	github.com/riverqueue/river/rivertype v0.51.1 // indirect
	github.com/tidwall/gjson v1.20.0 // indirect
	github.com/tidwall/match v1.2.0 // indirect
	github.com/tidwall/pretty v1.2.1 // indirect
	github.com/tidwall/sjson v1.2.5 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/oauth2 v0.37.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.43.0 // indirect
	modernc.org/libc v1.77.1 // indirect
	modernc.org/mathutil v1.7.1 // indirect
	modernc.org/memory v1.12.1 // indirect
	modernc.org/sqlite v1.60.1 // indirect
)

replace (
	github.com/dispensary-go/dispensary => ../../
	github.com/dispensary-go/dispensary/integration/mysql => ../../integration/mysql
	github.com/dispensary-go/dispensary/integration/postgres => ../../integration/postgres
	github.com/dispensary-go/dispensary/integration/sqlite => ../../integration/sqlite
	github.com/dispensary-go/dispensary/oauth/sqlstore => ../../oauth/sqlstore
	github.com/dispensary-go/dispensary/ratelimit/pgstore => ../../ratelimit/pgstore
	github.com/dispensary-go/dispensary/webhook/riverinbox => ../../webhook/riverinbox
	github.com/dispensary-go/dispensary/webhook/sqlinbox => ../../webhook/sqlinbox
)
