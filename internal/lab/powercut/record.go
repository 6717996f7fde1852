//go:build unix

package powercut

// Record starts logging SQLite's operations on the files of a folder. The folder must be empty.
// From now on SQLite does not sync any other folder.
func Record(folder string) *Log {
	install()
	l := &Log{present: map[string]bool{}}
	recorder.mu.Lock()
	defer recorder.mu.Unlock()
	recorder.logs[folder] = l
	return l
}

// Stop stops logging a folder.
func Stop(folder string) {
	recorder.mu.Lock()
	defer recorder.mu.Unlock()
	delete(recorder.logs, folder)
}

// Promise logs a promise. Call it after the promise was given to the program.
func (l *Log) Promise(promise any) {
	recorder.mu.Lock()
	defer recorder.mu.Unlock()
	l.add(op{kind: opPromise, promise: promise})
}
