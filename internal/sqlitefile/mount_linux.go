package sqlitefile

import (
	"os"
	"strings"
)

// isMountPoint reports whether something is mounted at a resolved path. Without /proc it
// reports false.
func isMountPoint(path string) bool {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(mounts)) {
		const mountPoint = 4 // the field, see proc_pid_mountinfo(5)
		if fields := strings.Fields(line); len(fields) > mountPoint && unescape.Replace(fields[mountPoint]) == path {
			return true
		}
	}
	return false
}

// unescape decodes the characters that would end a field or a line.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
