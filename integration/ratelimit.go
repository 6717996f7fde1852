package integration

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/ratelimit"
)

// parseRateLimit reads [Application].RateLimit. The problem is empty if there is none.
func parseRateLimit(text string) (requests int, per time.Duration, problem string) {
	if text == "" {
		return ratelimit.DefaultRequests, ratelimit.DefaultPer, ""
	}
	number, period, _ := strings.Cut(text, "/")
	requests, err := strconv.Atoi(number)
	if err == nil {
		per, err = time.ParseDuration(period)
	}
	if err != nil || requests < 1 || per < time.Second {
		return 0, 0, "must be a number of requests and a period of a second or more, such as 5000/5m"
	}
	return requests, per, ""
}

// sharesLimits reports whether an application has a limit to share.
func (c Config) sharesLimits() bool {
	return slices.ContainsFunc(c.Applications, func(a Application) bool { return a.RateLimit != "" })
}

// limiter returns the limiter of an application.
func (i *Integration) limiter(a Application) (dispensary.Limiter, error) {
	requests, per, _ := parseRateLimit(a.RateLimit) // it has been checked
	if i.limits == nil || a.RateLimit == "" {
		return ratelimit.New(requests, per)
	}
	return ratelimit.NewFleet(ratelimit.FleetConfig{
		Store: i.limits, Name: a.Site.Environment.String() + " " + a.ClientID,
		Requests: requests, Per: per, Processes: i.setup.Processes, Logger: i.setup.Logger,
	})
}
