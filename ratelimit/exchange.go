package ratelimit

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/jitter"
)

// hurry asks for more because one waits.
func (f *Fleet) hurry() {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	switch {
	case f.closed:
	case f.joined == nil: // it had just left
		f.joined = make(chan struct{})
		f.exchange()
	case !now.Before(f.urgent):
		f.urgent = now.Add(f.patience)
		f.patience = min(2*f.patience, f.config.Per/5)
		f.exchange()
	}
}

// exchange begins an exchange, now or after the one that is under way.
func (f *Fleet) exchange() {
	if f.running != nil {
		f.again = true
		return
	}
	if f.timer != nil {
		f.timer.Stop()
	}
	f.running, f.again = make(chan struct{}), false
	go f.run(f.propose())
}

// run makes an exchange, and plans the next one.
func (f *Fleet) run(own record) {
	board, err := f.ask(context.Background(), own)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		f.failed(err)
	} else {
		f.learn(board, own)
	}
	close(f.running)
	f.running = nil
	if !isClosed(f.joined) {
		close(f.joined)
	}
	switch {
	case f.closed:
	case f.again:
		f.exchange()
	default:
		f.timer = time.AfterFunc(f.interval(), f.tick)
	}
}

// tick makes the exchange that is due. A process that has nothing to do leaves.
func (f *Fleet) tick() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || f.running != nil {
		return
	}
	if !f.local.idle() || f.away {
		f.exchange()
		return
	}
	f.running = make(chan struct{})
	own := f.goodbye()
	f.joined = nil
	go func() {
		_, _ = f.ask(context.Background(), own) // where it fails the others notice that it is silent
		f.mu.Lock()
		defer f.mu.Unlock()
		close(f.running)
		f.running = nil
		if f.again && !f.closed {
			f.exchange()
		}
	}()
}

// goodbye gives up the quota, and returns what to leave for the others.
func (f *Fleet) goodbye() record {
	f.set(0)
	f.reached, f.connected, f.peers = time.Time{}, time.Time{}, map[string]*peer{}
	return record{Left: true, Used: f.local.demand().ages}
}

// ask exchanges records with the store, which may panic.
func (f *Fleet) ask(ctx context.Context, own record) (board Board, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("ratelimit: the store panicked with a %T", v)
		}
	}()
	data, err := json.Marshal(own)
	if err != nil {
		return Board{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return f.config.Store.Exchange(ctx, f.config.Name, f.process, data, keep)
}

// interval is the time to the next exchange. It is jittered, so that processes do not stay
// together.
func (f *Fleet) interval() time.Duration {
	most := f.config.Per / 5
	interval := time.Duration(float64(f.config.Per) * perExchange * float64(max(1, f.seen)) / float64(f.config.Requests))
	switch {
	case f.away:
		interval = min(interval, most/2)
	case f.eager:
		interval /= 4
	}
	interval = min(max(interval, time.Second), most)
	return interval*9/10 + jitter.N(interval/5+1)
}

// propose returns what this process leaves for the others. What it gives up it gives up now;
// what it wants more it has when the store has answered. What it has sent is held in any case:
// its quota can be below that, for a period.
func (f *Fleet) propose() record {
	now := time.Now()
	f.tried = now
	own := f.own()
	switch {
	case f.reached.IsZero():
		own.wanted = max(f.quota, f.share())
	case now.Sub(f.reached) > f.lease: // first to see what has become of the others
		own.wanted = f.quota
	default:
		target, most := f.plan(now, own)
		if own.people > 0 { // the store has more than this process has heard of, perhaps
			target, most = max(target, min(f.config.Requests, own.starts+2*(own.people+own.Reserve))), f.config.Requests
		}
		f.shrink(f.soon(target, own))
		own.wanted = max(f.quota, min(f.soon(target, own), most))
	}
	own.Held = max(own.wanted, own.starts)
	return own
}

// soon is as much of a target as this process may need before it asks again: what is not used
// yet is better left to those who need it at once.
func (f *Fleet) soon(target int, own record) int {
	return min(target, max(f.share(), own.starts+target/4+own.Reserve))
}

// own is what this process has done, and would do.
func (f *Fleet) own() record {
	d := f.local.demand()
	share := f.config.Requests / max(1, f.seen)
	f.reserve = min(max(share/100, max(share/40, d.most)-f.quota/parts), share/10)
	own := record{Used: d.ages, Reserve: f.reserve}
	for p := range own.Wants {
		own.Wants[p] = d.used[p] + d.used[p]/4
		if d.waiting[p] > 0 && api.Priority(p) != api.PriorityInteractive {
			own.Wants[p] = f.config.Requests
		}
	}
	own.people = d.waiting[api.PriorityInteractive]
	first := &own.Wants[api.PriorityInteractive]
	*first = max(*first, d.recent*recently, d.people(f.local.starts.per)) + 2*own.people
	for _, n := range d.used {
		own.starts += n
	}
	if f.pause.After(time.Now()) {
		own.Pause = f.pause.Add(f.offset)
	}
	return own
}

// share is what a process has that knows nothing of the others, or nothing any more.
func (f *Fleet) share() int { return max(1, f.config.Requests/max(f.config.Processes, f.seen)) }

// plan returns what this process should hold, and what it may hold for background work, as
// far as it knows the others.
func (f *Fleet) plan(now time.Time, own record) (target, most int) {
	total := f.config.Requests
	most = total - total/pooled
	members, gone := []record{own}, 0
	for _, p := range f.peers {
		if p.Left {
			gone += f.holds(p, now)
		} else {
			members = append(members, p.record)
		}
	}
	return targets(most-gone, members)[0], most - f.held(now)
}

// held is what all others may send. Those that are silent for two periods keep to their shares, if
// they run at all, and there are no more processes than are known: one that starts after others
// have died has a share at once.
func (f *Fleet) held(now time.Time) (n int) {
	running, silent := 1, 0
	for _, p := range f.peers {
		switch {
		case !p.Left && now.Sub(p.heard) >= f.hold:
			silent++
			continue
		case !p.Left:
			running++
		}
		n += f.holds(p, now)
	}
	return n + min(silent, max(0, f.config.Processes-running))*max(1, f.config.Requests/f.config.Processes)
}

// holds is what another process may send. One that is silent may have a share of its own by
// now, see failed.
func (f *Fleet) holds(p *peer, now time.Time) int {
	switch silent := now.Sub(p.heard); {
	case p.Left:
		return p.left(silent, f.local.starts.per)
	case silent > f.lease:
		return max(p.Held, f.share())
	}
	return p.Held
}

// learn takes in what the others have left. What they do not leave any more is remembered
// for as long as if they were silent: a store may have lost it.
func (f *Fleet) learn(board Board, own record) {
	now := time.Now()
	if f.away {
		f.away = false
		f.config.Logger.Info("the store of the rate limit is back", slog.String("name", f.config.Name))
	}
	late := f.tried.Sub(f.reached)
	if late > f.lease {
		f.connected = now
	}
	f.offset = board.Now.Sub(now)
	f.read(board, now)
	held, quota := f.held(now), f.quota
	if late >= f.hold { // the others may have taken what this process had
		quota = min(quota, max(0, f.config.Requests-held))
	}
	most := f.config.Requests
	if own.people == 0 {
		most -= most / pooled
	}
	if f.reached.IsZero() {
		quota = max(quota, min(own.Reserve, own.wanted, f.config.Requests-held)) // the others know of no more than it wanted
	}
	quota = max(quota, min(own.wanted, most-held))
	if quota > f.quota {
		f.patience = time.Second
	}
	f.reached = f.tried
	f.set(quota)
	target, _ := f.plan(now, f.own())
	f.aim = quota
	if now.Sub(f.connected) > f.config.Per/10 { // the others have been heard of, and what they want
		f.aim = max(quota, target)
	}
	f.eager = f.soon(target, own) > quota+f.config.Requests/pooled
	if own.people == 0 {
		f.shrink(f.soon(target, own))
		f.again = f.again || own.wanted > f.quota+f.config.Requests/pooled // the others leave it what it held
	}
}

// read brings what is known of the others up to date.
func (f *Fleet) read(board Board, now time.Time) {
	for process, r := range board.Records {
		known := f.peers[process]
		if process == f.process || known != nil && known.at.Equal(r.At) {
			continue
		}
		p := &peer{at: r.At, heard: now.Add(min(0, r.At.Sub(board.Now)))}
		if json.Unmarshal(r.Data, &p.record) != nil {
			continue // it is another program's
		}
		if known != nil && !known.Left && r.At.Before(known.at) { // the store has lost a later one: what is more counts
			p.Held, p.Left = max(p.Held, known.Held), false
			if known.heard.After(p.heard) {
				p.heard = known.heard
			}
		}
		f.peers[process] = p
		if pause := p.Pause.Sub(board.Now); pause > 0 {
			f.local.Pause(min(pause, maxPause))
		}
	}
	f.seen = 1
	for process, p := range f.peers {
		since := p.heard
		if f.connected.After(since) {
			since = f.connected
		}
		switch {
		case p.Left && f.holds(p, now) == 0, !p.Left && now.Sub(since) >= f.hold:
			delete(f.peers, process)
		case !p.Left:
			f.seen++
		}
	}
}

// maxPause bounds what a record that is wrong can do.
const maxPause = time.Hour

// failed goes on without the store. What each process holds is no more than the limit, all
// in all. After a while none holds more than its share, and when nothing that began before
// counts any more, all do.
func (f *Fleet) failed(err error) {
	if !f.away {
		f.away = true
		f.config.Logger.Warn("the store of the rate limit is away: the process keeps to its share",
			slog.String("name", f.config.Name), slog.Any("error", err))
	}
	// There is nothing to ask for where people need more. The reserve of one that has seen few
	// others may be more than its share: the background has half of that in any case.
	f.reserve = min(max(f.reserve, f.share()/10), f.share()/2)
	switch silent := time.Since(f.reached); {
	case f.reached.IsZero(), silent >= f.hold:
		f.set(f.share())
	case silent >= f.lease:
		f.set(min(f.quota, f.share()))
	default: // the background keeps to the share, so that people do not wait when only that is left
		f.local.set(f.quota, max(f.reserve, f.quota-f.share()+f.reserve), max(f.aim, f.quota))
	}
}

// set changes what this process may send.
func (f *Fleet) set(quota int) {
	f.quota = max(0, quota)
	f.local.set(f.quota, f.reserve, max(f.aim, f.quota))
}

// shrink gives up what is more than wanted, as far as it is not used.
func (f *Fleet) shrink(wanted int) { f.quota = f.local.shrink(wanted, f.reserve, f.aim) }
