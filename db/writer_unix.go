//go:build unix

package db

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"syscall"
)

// running reports whether the process that left a mark still runs. A pid alone may have been given away
// anew, so its start time is compared where the system tells it.
func running(pid int, started string) bool {
	if err := syscall.Kill(pid, 0); err != nil && !errors.Is(err, syscall.EPERM) {
		return false
	}
	now := startTime(pid)
	return started == "" || now == "" || now == started
}

// startTime is field 22 of /proc/PID/stat, "" where there is no /proc. The name in field 2 may hold spaces
// and parentheses, so counting begins at the last parenthesis: "812 (flow) S 1 …".
func startTime(pid int) string {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return ""
	}
	f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(f) < 20 {
		return ""
	}
	return string(f[19])
}
