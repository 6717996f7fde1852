package riverinbox

import "time"

// run is the work of one job.
type run struct {
	inbox     *Inbox
	partition partition
	token     string // of its claims
	begun     time.Time

	settled       int
	failing, dead bool
	finished      bool // nothing is left in the partition, which is given up
	reasons       []string
}

func (i *Inbox) newRun(l partition) *run {
	return &run{inbox: i, partition: l, token: i.newToken(), begun: time.Now()}
}

// next says when a job has to come again: never, if nothing is left to do.
type next struct {
	never bool
	wait  time.Duration
	again bool // it was interrupted, and has to come whatever it has done
}
