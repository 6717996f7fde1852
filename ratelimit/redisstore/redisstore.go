// Package redisstore is a [ratelimit.Store] in Redis or Valkey: one hash for each limit, and one
// script, which is one round trip. It needs version 5 or later.
//
//	store, err := redisstore.New(redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"}))
//	fleet, err := ratelimit.NewFleet(ratelimit.FleetConfig{Store: store, Name: "us"})
//
// A replica that takes over, and a server that starts from a snapshot, may not have the latest
// records, and a server without persistence has none after a restart: the fleet keeps to its
// limit all the same.
package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/ratelimit"
)

// Store is a [ratelimit.Store]. It is safe for concurrent use. Get it from [New].
type Store struct{ client redis.Scripter }

var _ ratelimit.Store = (*Store)(nil)

// prefix begins the names of keys.
const prefix = "dispensary:ratelimit:"

// New returns a store that uses client, which may be one of a cluster or of sentinels. It asks
// for nothing. An error is an [*api.ArgumentError].
func New(client redis.Scripter) (*Store, error) {
	if client == nil {
		return nil, &api.ArgumentError{Field: "redisstore.New client", Reason: "is nil"}
	}
	return &Store{client}, nil
}

// script stores "<microseconds> <record>" in the field of the process, and returns the time and
// all fields.
var script = redis.NewScript(`
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f', now) .. ' ' .. ARGV[2])
redis.call('PEXPIRE', KEYS[1], math.max(1, math.floor(ARGV[3] / 1000)))
local all = redis.call('HGETALL', KEYS[1])
local kept = {string.format('%.0f', now)}
for i = 1, #all, 2 do
	local at = tonumber(string.match(all[i + 1], '^%d+'))
	if now - at > tonumber(ARGV[3]) then
		redis.call('HDEL', KEYS[1], all[i])
	else
		kept[#kept + 1] = all[i]
		kept[#kept + 1] = all[i + 1]
	end
end
return kept
`)

// Exchange implements [ratelimit.Store].
func (s *Store) Exchange(ctx context.Context, name, process string, record []byte, keep time.Duration) (ratelimit.Board, error) {
	answer, err := script.Run(ctx, s.client, []string{prefix + name}, process, record, keep.Microseconds()).StringSlice()
	if err != nil {
		return ratelimit.Board{}, fmt.Errorf("redisstore: %w", err)
	}
	if len(answer)%2 != 1 {
		return ratelimit.Board{}, errUnreadable
	}
	now, err := microseconds(answer[0])
	if err != nil {
		return ratelimit.Board{}, err
	}
	board := ratelimit.Board{Now: now, Records: map[string]ratelimit.Record{}}
	for i := 1; i < len(answer); i += 2 {
		at, data, _ := strings.Cut(answer[i+1], " ")
		stored, err := microseconds(at)
		if err != nil {
			return ratelimit.Board{}, err
		}
		board.Records[answer[i]] = ratelimit.Record{At: stored, Data: []byte(data)}
	}
	return board, nil
}

// errUnreadable is returned where the hash is not the store's.
var errUnreadable = errors.New("redisstore: the answer cannot be read: another program uses the key")

func microseconds(text string) (time.Time, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, errUnreadable
	}
	return time.UnixMicro(n), nil
}
