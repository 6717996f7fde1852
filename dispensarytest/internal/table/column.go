package table

// ChunkSize is how many rows are copied when a row of a shared table changes.
const ChunkSize = 128

// column keeps values by number, in chunks that forks share until one is written.
type column[V any] struct {
	chunks []*[ChunkSize]V
	mine   []bool // chunks that are ours to write
	before int    // how many chunks were forgotten
	End    int    // the number after the last value
}

func (c *column[V]) At(n int) V { return c.chunks[n/ChunkSize-c.before][n%ChunkSize] }

// set writes a value; the number after the last one adds it.
func (c *column[V]) set(n int, value V) {
	chunk := n/ChunkSize - c.before
	switch {
	case chunk == len(c.chunks):
		c.chunks = append(c.chunks, new([ChunkSize]V))
		c.mine = append(c.mine, true)
	case !c.mine[chunk]:
		copied := *c.chunks[chunk]
		c.chunks[chunk], c.mine[chunk] = &copied, true
	}
	c.chunks[chunk][n%ChunkSize] = value
	c.End = max(c.End, n+1)
}

// forget frees the chunks before a number. Values in them are not read any more.
func (c *column[V]) forget(n int) {
	if gone := n/ChunkSize - c.before; gone > 0 {
		c.chunks = append([]*[ChunkSize]V(nil), c.chunks[gone:]...)
		c.mine = append([]bool(nil), c.mine[gone:]...)
		c.before += gone
	}
}

// share gives up what is ours.
func (c *column[V]) share() { c.mine = make([]bool, len(c.chunks)) }

func (c *column[V]) fork() column[V] {
	f := *c
	f.chunks = append([]*[ChunkSize]V(nil), c.chunks...)
	f.mine = make([]bool, len(c.chunks))
	return f
}
