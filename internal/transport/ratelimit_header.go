package transport

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/api"
)

// feedback returns what the headers of an answer say of the platform's limit. It reads
//
//	RateLimit: "default";r=0;t=30               and RateLimit-Policy: "default";q=100;w=60
//	RateLimit: limit=100, remaining=0, reset=30 of earlier drafts
//	RateLimit-Limit, -Remaining, -Reset         and the same with X-; the reset in seconds, or at a time
//
// What it cannot read it takes as absent. Where several limits are named, it returns the
// longest pause and the slowest rate.
func feedback(header http.Header) (f api.LimitFeedback) {
	for _, item := range limitItems(header["Ratelimit"]) {
		if item.has("r", "remaining") && item.get("r", "remaining") == 0 {
			f.Pause = max(f.Pause, seconds(item.get("t", "reset")))
		}
	}
	for _, name := range [...]string{"Ratelimit-Policy", "Ratelimit-Limit"} {
		for _, item := range limitItems(header[name]) {
			requests, window := item.get("q", ""), seconds(item.get("w", ""))
			if requests > 0 && window > 0 && slower(requests, window, f) {
				f.Requests, f.Window = int(min(requests, 1<<31-1)), window
			}
		}
	}
	for _, prefix := range [...]string{"Ratelimit-", "X-Ratelimit-"} {
		if left, ok := number(header.Get(prefix + "Remaining")); ok && left == 0 {
			if reset, ok := number(header.Get(prefix + "Reset")); ok {
				f.Pause = max(f.Pause, untilReset(reset, header))
			}
		}
	}
	return f
}

// slower reports that a limit allows fewer requests in a time than the one that is known.
func slower(requests int64, window time.Duration, known api.LimitFeedback) bool {
	return known.Requests == 0 || float64(requests)*float64(known.Window) < float64(known.Requests)*float64(window)
}

// untilReset reads a reset that is a number of seconds, or a time in seconds since 1970.
func untilReset(reset int64, header http.Header) time.Duration {
	const aTime = 1_000_000_000 // 2001; nothing waits for so many seconds
	if reset >= aTime {
		return min(until(time.Unix(min(reset, 1<<40), 0), header), maxThrottle)
	}
	return seconds(reset)
}

// seconds is at most what one answer may ask for.
func seconds(n int64) time.Duration {
	return time.Duration(min(max(n, 0), int64(24*time.Hour/time.Second))) * time.Second
}

func number(text string) (int64, bool) {
	if text == "" {
		return 0, false // without an error to make
	}
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	return n, err == nil && n >= 0
}

// limitItem is one limit: its numbers by their names. That without a name is the quota.
type limitItem map[string]int64

func (i limitItem) has(names ...string) bool {
	for _, name := range names {
		if _, ok := i[name]; ok {
			return true
		}
	}
	return false
}

func (i limitItem) get(name, other string) int64 {
	if n, ok := i[name]; ok {
		return n
	}
	return i[other]
}

// limitItems reads a list of limits. A list whose parts have names and no parameters is one.
func limitItems(values []string) (items []limitItem) {
	if len(values) == 0 {
		return nil // most answers say nothing
	}
	var named limitItem
	for part := range strings.SplitSeq(strings.Join(values, ","), ",") {
		item := limitItem{}
		parameters := strings.Split(part, ";")
		for _, parameter := range parameters {
			name, value, found := strings.Cut(strings.TrimSpace(parameter), "=")
			if !found {
				name, value = "q", name
			}
			if n, ok := number(value); ok {
				item[strings.ToLower(name)] = n
			}
		}
		if len(parameters) > 1 || item.has("q") {
			items = append(items, item)
			continue
		}
		if named == nil {
			named = limitItem{}
			items = append(items, named)
		}
		for name, n := range item {
			named[name] = n
		}
	}
	return items
}
