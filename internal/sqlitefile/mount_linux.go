package sqlitefile

import (
	"os"
	"strings"
)

// isMountPoint reports whether a resolved path is a mount point. Without /proc it returns
// false.
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

// unescape decodes the escaped characters of mountinfo, which would otherwise end a field or a
// line.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
