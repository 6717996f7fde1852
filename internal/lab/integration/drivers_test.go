package integration_test

import (
	_ "github.com/dispensary-go/dispensary/integration/mysql"
	_ "github.com/dispensary-go/dispensary/integration/postgres"
	_ "github.com/dispensary-go/dispensary/integration/sqlite"
)
