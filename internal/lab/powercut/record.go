//go:build unix

package powercut

// Record logs what SQLite does from now on to the files of a folder, which has to be
// empty. Other folders are not synced from now on.
func Record(folder string) *Log {
	install()
	l := &Log{present: map[string]bool{}}
	recorder.mu.Lock()
	defer recorder.mu.Unlock()
	recorder.logs[folder] = l
	return l
}

// Stop ends the log.
func Stop(folder string) {
	recorder.mu.Lock()
	defer recorder.mu.Unlock()
	delete(recorder.logs, folder)
}

// Promise logs what the program was promised, after it was.
func (l *Log) Promise(promise any) {
	recorder.mu.Lock()
	defer recorder.mu.Unlock()
	l.add(op{kind: opPromise, promise: promise})
}
