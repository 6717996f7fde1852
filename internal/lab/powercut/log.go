package powercut

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
)

// sector is the number of bytes that a disk writes atomically.
const sector = 512

// kind is the kind of an operation.
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

// op is an operation on a file, or a promise given to the program.
type op struct {
	kind    kind
	file    string
	offset  int64 // offset of a write, or the new size of a truncated file
	data    []byte
	promise any
}

// Log is the ordered list of operations on the files of a folder.
type Log struct {
	ops     []op
	present map[string]bool
}

func (l *Log) add(o op) { l.ops = append(l.ops, o) }

// opened logs the creation of a file, unless it exists.
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

// Len returns the number of steps in the log.
func (l *Log) Len() int { return len(l.ops) }

// Loss selects the unsynced operations lost in a power cut.
type Loss int

// The losses. LoseEnd and LoseAny are random.
const (
	LoseAll  Loss = iota // all operations are lost
	LoseNone             // no operation is lost
	LoseEnd              // the last operations on each file are lost, and the last remaining write is torn
	LoseAny              // any operations are lost, in any order, and writes are torn between sectors
)

// Losses is the number of losses.
const Losses = 4

// machine is a disk that replays the log.
type machine struct {
	log      *Log
	next     int
	folder   map[string]*content // the folder as programs see it
	durable  map[string]*content // the folder on the disk
	changes  []change            // unsynced changes of the folder
	promises []any               // promises given so far
}

// content is the content of a file.
type content struct {
	durable []byte
	writes  []op // unsynced writes
}

// change is the creation of a file in the folder, or its removal if content is nil.
type change struct {
	name    string
	content *content
}

// newMachine returns a machine that has not replayed any step of the log.
func newMachine(l *Log) *machine {
	return &machine{log: l, folder: map[string]*content{}, durable: map[string]*content{}}
}

// step replays the next step of the log. It reports whether there was one.
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

// image returns the files after a power cut at the current step.
func (m *machine) image(loss Loss, random *rand.Rand) map[string][]byte {
	folder := map[string]*content{}
	maps.Copy(folder, m.durable)
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

// survivors returns the elements of all that remain after a loss.
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

// applied returns data after the write or truncation. If keep is not nil, it applies only the
// sectors for which keep returns true.
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

// resized returns data truncated to size, or extended to it with zeros.
func resized(data []byte, size int64) []byte {
	if size <= int64(len(data)) {
		return data[:size]
	}
	return append(data, make([]byte, size-int64(len(data)))...)
}
