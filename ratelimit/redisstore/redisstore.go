// Package redisstore stores the requests of a rate limit in Redis or Valkey, for a
// [ratelimit.Fleet]. It uses one list per limit and one script. It needs version 5 or later,
// and about 10 bytes of memory for each request of a limit.
//
//	store, err := redisstore.New(redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"}))
//	fleet, err := ratelimit.NewFleet(ratelimit.FleetConfig{Store: store, Name: "us"})
//
// If a replica takes over, or a server starts from a snapshot, the latest starts may be
// missing. A server without persistence loses all starts in a restart. For the effects, see
// package ratelimit.
package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/ratelimit"
)

// Store is a [ratelimit.Store]. It is safe for concurrent use. Create it with [New].
type Store struct{ client redis.Scripter }

var _ ratelimit.Store = (*Store)(nil)

// New returns a store with the given client, which may be a cluster or sentinel client. It
// does not call the server. If client is nil, it returns an [*api.ArgumentError].
func New(client redis.Scripter) (*Store, error) {
	if client == nil {
		return nil, &api.ArgumentError{Field: "redisstore.New client", Reason: "is nil"}
	}
	return &Store{client}, nil
}

// keys returns the keys of a limit: the times of its starts, and its pause with an expiry. The
// braces put both keys into the same slot of a cluster.
func keys(name string) []string {
	key := "{dispensary:ratelimit:" + url.QueryEscape(name) + "}"
	return []string{key + ":starts", key + ":pause"}
}

// take has the arguments past and want, and the starts and microseconds of each window. A
// start more than a window in the future comes from a wrong clock and does not count.
var take = redis.NewScript(`
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local text = string.format('%.0f', now)
for i = 1, math.min(tonumber(ARGV[1]), tonumber(ARGV[3])) do
	redis.call('RPUSH', KEYS[1], text)
end
local starts, wait = 0, 0
while starts < tonumber(ARGV[2]) do
	for i = 3, #ARGV, 2 do
		local last = redis.call('LINDEX', KEYS[1], -ARGV[i])
		local left = last and last + ARGV[i + 1] - now or 0
		if left <= 2 * ARGV[i + 1] then
			wait = math.max(wait, left)
		end
	end
	if wait > 0 then
		break
	end
	redis.call('RPUSH', KEYS[1], text)
	starts = starts + 1
end
redis.call('LTRIM', KEYS[1], -ARGV[3], -1)
redis.call('PEXPIRE', KEYS[1], math.ceil(ARGV[4] / 1000))
return {starts, wait, math.max(0, redis.call('PTTL', KEYS[2]))}
`)

// Take implements [ratelimit.Store].
func (s *Store) Take(ctx context.Context, name string, past, want int, windows ...ratelimit.Window) (ratelimit.Taken, error) {
	args := []any{past, want}
	for _, w := range windows {
		args = append(args, w.Starts, w.Per.Microseconds())
	}
	response, err := take.Run(ctx, s.client, keys(name), args...).Int64Slice()
	if err != nil {
		return ratelimit.Taken{}, fmt.Errorf("redisstore: %w", err)
	}
	if len(response) != 3 {
		return ratelimit.Taken{}, errors.New("redisstore: unexpected result: the server does not run the script")
	}
	return ratelimit.Taken{
		Starts: int(response[0]),
		Wait:   time.Duration(response[1]) * time.Microsecond,
		Pause:  time.Duration(response[2]) * time.Millisecond,
	}, nil
}

var pause = redis.NewScript(`
if redis.call('PTTL', KEYS[2]) < tonumber(ARGV[1]) then
	redis.call('SET', KEYS[2], '', 'PX', ARGV[1])
end
`)

// Pause implements [ratelimit.Store].
func (s *Store) Pause(ctx context.Context, name string, d time.Duration) error {
	err := pause.Run(ctx, s.client, keys(name), max(1, d.Milliseconds())).Err()
	if err != nil && !errors.Is(err, redis.Nil) {
		return fmt.Errorf("redisstore: %w", err)
	}
	return nil
}
