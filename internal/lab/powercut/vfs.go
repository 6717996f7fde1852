//go:build unix

package powercut

import (
	"bytes"
	"path/filepath"
	"sync"
	"unsafe"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// recorder is the default VFS of this process, so it also records packages that open their files
// themselves. It passes all calls to SQLite's own VFS. For logged folders it logs changes and
// syncs of files. For other folders it skips syncs, because no test cuts the power of this machine.
var recorder struct {
	mu      sync.Mutex        // held during logged operations, so that they have one order
	logs    map[string]*Log   // by folder
	files   map[uintptr]*file // open files by their sqlite3_file
	methods map[uintptr]*methods

	vfs             sqlite3.Tsqlite3_vfs
	plainVFS        sqlite3.Tsqlite3_vfs
	plainOpenFolder func(*libc.TLS, uintptr, uintptr) int32
}

// methods contains the methods of a file: SQLite's own and the recorded ones.
type methods struct{ plain, recorded sqlite3.Tsqlite3_io_methods }

// file is an open file. log is nil if its folder is not recorded.
type file struct {
	*methods
	log  *Log
	name string
}

// install registers the recorder as the default VFS, once.
var install = sync.OnceFunc(func() {
	r := &recorder
	r.logs, r.files, r.methods = map[string]*Log{}, map[uintptr]*file{}, map[uintptr]*methods{}
	tls := libc.NewTLS()
	defer tls.Close()
	plain := sqlite3.Xsqlite3_vfs_find(tls, 0)
	r.plainVFS = *at[sqlite3.Tsqlite3_vfs](plain)
	r.vfs = r.plainVFS
	r.vfs.FpNext, r.vfs.FzName = 0, text("recorder")
	r.vfs.FxOpen, r.vfs.FxDelete = pointer(open), pointer(remove)
	name := text("openDirectory")
	r.plainOpenFolder = function[func(*libc.TLS, uintptr, uintptr) int32](
		function[func(*libc.TLS, uintptr, uintptr) uintptr](r.vfs.FxGetSystemCall)(tls, plain, name))
	set := function[func(*libc.TLS, uintptr, uintptr, uintptr) int32](r.vfs.FxSetSystemCall)
	if set(tls, plain, name, pointer(openFolder)) != sqlite3.SQLITE_OK ||
		sqlite3.Xsqlite3_vfs_register(tls, uintptr(unsafe.Pointer(&r.vfs)), 1) != sqlite3.SQLITE_OK {
		panic("powercut: SQLite rejects the recorder")
	}
})

func open(tls *libc.TLS, vfs, name, f uintptr, flags int32, outFlags uintptr) int32 {
	r := &recorder
	r.mu.Lock()
	defer r.mu.Unlock()
	rc := function[func(*libc.TLS, uintptr, uintptr, uintptr, int32, uintptr) int32](r.plainVFS.FxOpen)(tls, vfs, name, f, flags, outFlags)
	place := at[sqlite3.Tsqlite3_file](f)
	if rc != sqlite3.SQLITE_OK || place.FpMethods == 0 {
		return rc
	}
	m := r.methods[place.FpMethods]
	if m == nil {
		m = &methods{plain: *at[sqlite3.Tsqlite3_io_methods](place.FpMethods)}
		m.recorded = m.plain
		m.recorded.FxWrite, m.recorded.FxTruncate = pointer(write), pointer(truncate)
		m.recorded.FxSync, m.recorded.FxClose = pointer(syncFile), pointer(closeFile)
		r.methods[place.FpMethods] = m // keeps m reachable, because SQLite stores its address
	}
	place.FpMethods = uintptr(unsafe.Pointer(&m.recorded))
	opened := &file{methods: m}
	if name != 0 { // temporary files have no name
		opened.log, opened.name = logOf(name)
	}
	if opened.log != nil {
		opened.log.opened(opened.name)
	}
	r.files[f] = opened
	return rc
}

// logOf returns the log of a path's folder, or nil, and the name of the file.
func logOf(path uintptr) (*Log, string) {
	folder, name := filepath.Split(libc.GoString(path))
	return recorder.logs[filepath.Clean(folder)], name
}

// during runs an operation on an open file and logs it if it succeeds.
func during(f uintptr, do func(*file) int32, done func(*file) op) int32 {
	r := &recorder
	r.mu.Lock()
	defer r.mu.Unlock()
	opened := r.files[f]
	rc := do(opened)
	if rc == sqlite3.SQLITE_OK && opened.log != nil {
		opened.log.add(done(opened))
	}
	return rc
}

func write(tls *libc.TLS, f, from uintptr, n int32, offset int64) int32 {
	return during(f, func(opened *file) int32 {
		return function[func(*libc.TLS, uintptr, uintptr, int32, int64) int32](opened.plain.FxWrite)(tls, f, from, n, offset)
	}, func(opened *file) op {
		return op{kind: opWrite, file: opened.name, offset: offset, data: bytes.Clone(unsafe.Slice(at[byte](from), n))}
	})
}

func truncate(tls *libc.TLS, f uintptr, size int64) int32 {
	return during(f, func(opened *file) int32 {
		return function[func(*libc.TLS, uintptr, int64) int32](opened.plain.FxTruncate)(tls, f, size)
	}, func(opened *file) op { return op{kind: opTruncate, file: opened.name, offset: size} })
}

func syncFile(tls *libc.TLS, f uintptr, flags int32) int32 {
	return during(f, func(opened *file) int32 {
		if opened.log == nil {
			return sqlite3.SQLITE_OK
		}
		return function[func(*libc.TLS, uintptr, int32) int32](opened.plain.FxSync)(tls, f, flags)
	}, func(opened *file) op { return op{kind: opSync, file: opened.name} })
}

func closeFile(tls *libc.TLS, f uintptr) int32 {
	r := &recorder
	r.mu.Lock()
	defer r.mu.Unlock()
	opened := r.files[f]
	delete(r.files, f)
	return function[func(*libc.TLS, uintptr) int32](opened.plain.FxClose)(tls, f)
}

func remove(tls *libc.TLS, vfs, name uintptr, syncFolder int32) int32 {
	r := &recorder
	r.mu.Lock()
	defer r.mu.Unlock()
	log, base := logOf(name)
	if log != nil && log.present[base] {
		log.removed(base) // FxDelete may sync the folder
	}
	return function[func(*libc.TLS, uintptr, uintptr, int32) int32](r.plainVFS.FxDelete)(tls, vfs, name, syncFolder)
}

// openFolder replaces the system call with which SQLite opens the folder of a file. SQLite syncs
// the folder immediately after it. It makes the call while it syncs or removes the file, so the
// recorder is already locked.
func openFolder(tls *libc.TLS, name, fd uintptr) int32 {
	rc := recorder.plainOpenFolder(tls, name, fd)
	if log, _ := logOf(name); rc == sqlite3.SQLITE_OK && log != nil {
		log.add(op{kind: opSyncFolder})
	}
	return rc
}

// at returns a pointer to an address in the memory of SQLite. This memory never moves.
func at[T any](address uintptr) *T { return *(**T)(unsafe.Pointer(&address)) }

// pointer returns the address of a Go function for SQLite. function returns the function at an
// address of SQLite.
func pointer[F any](f F) uintptr { return *(*uintptr)(unsafe.Pointer(&struct{ f F }{f})) }

func function[F any](address uintptr) F { return *(*F)(unsafe.Pointer(&struct{ uintptr }{address})) }

// text returns the address of a C string. It is never freed, because SQLite keeps it.
func text(s string) uintptr {
	p, err := libc.CString(s)
	if err != nil {
		panic(err)
	}
	return p
}
