package powercut

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// sector is what a disk writes whole or not at all.
const sector = 512

// kind says what was done.
type kind int

const (
	opWrite kind = iota
	opTruncate
	opSync
	opCreate
	opRemove
	opSyncFolder
	opPromise
)

// op is something that was done to a file, or a promise that the program was given.
type op struct {
	kind    kind
	file    string
	offset  int64 // or the new size
	data    []byte
	promise any
}

// Log is what was done to the files of a folder, in its order.
type Log struct {
	ops     []op
	present map[string]bool
}

func (l *Log) add(o op) { l.ops = append(l.ops, o) }

// opened logs the creation of a file if it was not there.
func (l *Log) opened(name string) {
	if !l.present[name] {
		l.present[name] = true
		l.add(op{kind: opCreate, file: name})
	}
}

func (l *Log) removed(name string) {
	delete(l.present, name)
	l.add(op{kind: opRemove, file: name})
}

// Len returns how much there is in the log.
func (l *Log) Len() int { return len(l.ops) }

// Loss says what becomes of that which was not synced.
type Loss int

// The losses. Only the first two are the same whenever they are asked for.
const (
	LoseAll  Loss = iota // nothing of it is there
	LoseNone             // all of it is there
	LoseEnd              // of each file there is what came first, the last write torn
	LoseAny              // any of it is there, in any order, writes torn between sectors
)

// Losses is how many there are.
const Losses = 4

// machine is the disk as the log is played back to it.
type machine struct {
	log      *Log
	next     int
	folder   map[string]*content // as programs see it
	durable  map[string]*content // as it is on the disk
	changes  []change            // of the folder, that were not synced
	promises []any               // that were given so far
}

// content is what a file holds.
type content struct {
	durable []byte
	writes  []op // that were not synced
}

// change is that a file has appeared in the folder, or has gone if content is nil.
type change struct {
	name    string
	content *content
}

// newMachine returns a machine on which nothing of the log has been done.
func newMachine(l *Log) *machine {
	return &machine{log: l, folder: map[string]*content{}, durable: map[string]*content{}}
}

// step does what comes next in the log, and reports whether there was anything.
func (m *machine) step() bool {
	if m.next == len(m.log.ops) {
		return false
	}
	o := m.log.ops[m.next]
	m.next++
	switch c := m.folder[o.file]; o.kind {
	case opWrite, opTruncate:
		c.writes = append(c.writes, o)
	case opSync:
		for _, w := range c.writes {
			c.durable = w.applied(c.durable, nil)
		}
		c.writes = nil
	case opCreate:
		c := &content{}
		m.folder[o.file] = c
		m.changes = append(m.changes, change{o.file, c})
	case opRemove:
		delete(m.folder, o.file)
		m.changes = append(m.changes, change{o.file, nil})
	case opSyncFolder:
		apply(m.durable, m.changes)
		m.changes = nil
	case opPromise:
		m.promises = append(m.promises, o.promise)
	}
	return true
}

func apply(folder map[string]*content, changes []change) {
	for _, c := range changes {
		if c.content == nil {
			delete(folder, c.name)
			continue
		}
		folder[c.name] = c.content
	}
}

// image returns the files that are there after the power was cut now.
func (m *machine) image(loss Loss, random *rand.Rand) map[string][]byte {
	folder := map[string]*content{}
	for name, c := range m.durable {
		folder[name] = c
	}
	apply(folder, survivors(m.changes, loss, random))
	image := map[string][]byte{}
	for name, c := range folder {
		data := slices.Clone(c.durable)
		kept := survivors(c.writes, loss, random)
		for n, w := range kept {
			torn := loss == LoseAny && random.IntN(2) == 0 || loss == LoseEnd && n == len(kept)-1
			if !torn {
				data = w.applied(data, nil)
				continue
			}
			data = w.applied(data, func() bool { return random.IntN(2) == 0 })
		}
		image[name] = data
	}
	return image
}

// survivors are those of all that are there after a loss.
func survivors[T any](all []T, loss Loss, random *rand.Rand) []T {
	switch loss {
	case LoseAll:
		return nil
	case LoseNone:
		return all
	case LoseEnd:
		return all[:random.IntN(len(all)+1)]
	case LoseAny:
		return slices.DeleteFunc(slices.Clone(all), func(T) bool { return random.IntN(2) == 0 })
	}
	panic(fmt.Sprintf("powercut: loss %d", loss))
}

// applied returns the data after a write, or after those of its sectors that keep wants,
// if it is not nil.
func (o op) applied(data []byte, keep func() bool) []byte {
	if o.kind == opTruncate {
		if keep != nil && !keep() {
			return data
		}
		return resized(data, o.offset)
	}
	for at := o.offset; at < o.offset+int64(len(o.data)); {
		end := min((at/sector+1)*sector, o.offset+int64(len(o.data)))
		if keep == nil || keep() {
			if int64(len(data)) < end {
				data = resized(data, end)
			}
			copy(data[at:end], o.data[at-o.offset:end-o.offset])
		}
		at = end
	}
	return data
}

// resized returns data of another size, with zeros where it is longer.
func resized(data []byte, size int64) []byte {
	if size <= int64(len(data)) {
		return data[:size]
	}
	return append(data, make([]byte, size-int64(len(data)))...)
}
