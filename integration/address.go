package integration

import (
	"net"
	"strings"

	driver "github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dispensary-go/dispensary"
)

// kind is the kind of a store or an inbox.
type kind string

const (
	postgres kind = "postgres"
	mysql    kind = "mysql"
	sqlite   kind = "sqlite"
	memory   kind = "memory"
)

// address is the parsed URL of a store or an inbox.
type address struct {
	kind kind
	name string // a URL, a data source name, or a path
}

// private reports whether the network cannot read connections to a database, because each of its
// hosts is on this machine or requires TLS.
func (a address) private() bool {
	switch a.kind {
	case postgres:
		config, err := pgxpool.ParseConfig(a.name)
		if err != nil {
			return false
		}
		private := isLocal(config.ConnConfig.Host) || config.ConnConfig.TLSConfig != nil
		for _, other := range config.ConnConfig.Fallbacks {
			private = private && (isLocal(other.Host) || other.TLSConfig != nil)
		}
		return private
	case mysql:
		config, err := driver.ParseDSN(a.name)
		if err != nil {
			return false
		}
		host, _, err := net.SplitHostPort(config.Addr)
		return config.Net == "unix" || err == nil && isLocal(host) || config.TLS != nil && !config.AllowFallbackToPlaintext
	}
	return true
}

// isLocal reports whether the host of a database is a socket or a loopback address.
func isLocal(host string) bool {
	ip := net.ParseIP(host)
	return strings.HasPrefix(host, "/") || strings.HasPrefix(host, "@") || host == "localhost" || ip != nil && ip.IsLoopback()
}

// parseAddress parses a URL of one of the kinds. problem is "" if the URL is valid. It never
// repeats the URL, because that may contain a password.
func parseAddress(text dispensary.Secret, kinds []kind) (at address, problem string) {
	scheme, rest, _ := strings.Cut(text.Reveal(), ":")
	at = address{kind(scheme), rest}
	if scheme == "postgres" || scheme == "postgresql" {
		at = address{postgres, text.Reveal()}
	}
	known := false
	var forms []string
	for _, k := range kinds {
		known = known || k == at.kind
		forms = append(forms, string(k)+":")
	}
	choice := "begin with one of " + strings.Join(forms, ", ")
	switch {
	case text.IsZero():
		return address{}, "is empty: it must " + choice
	case !known:
		return address{}, "must " + choice
	}
	switch at.kind {
	case postgres:
		if _, err := pgxpool.ParseConfig(at.name); err != nil {
			return at, "is not a valid PostgreSQL URL"
		}
	case mysql:
		if _, err := driver.ParseDSN(at.name); err != nil {
			return at, "is not a valid data source name of the MySQL driver"
		}
	case sqlite:
		if strings.HasPrefix(at.name, "//") && !strings.HasPrefix(at.name, "///") {
			return at, "must not begin with sqlite:// and a host: write sqlite:/var/lib/ehr/dispensary.db"
		}
		at.name = strings.TrimPrefix(at.name, "//") // sqlite:///var/lib/ehr.db
		if at.name == "" || strings.HasPrefix(at.name, ":") || strings.Contains(at.name, "?") {
			return at, "must name a file, such as sqlite:/var/lib/ehr/dispensary.db"
		}
	case memory:
		if at.name != "" {
			return at, "must be memory: without a name"
		}
	}
	return at, ""
}
