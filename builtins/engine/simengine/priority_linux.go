package simengine

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// prefer asks the scheduler to run this process before others, where that is allowed. An engine that waits
// for deadlines uses next to no processor time, and a late wake-up of its last token is an error in its
// true rate. Linux keeps the value per thread: every thread that there is gets it, later ones inherit it.
func prefer() {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return
	}
	for _, t := range threads {
		if tid, err := strconv.Atoi(t.Name()); err == nil {
			_ = unix.Setpriority(unix.PRIO_PROCESS, tid, -15)
		}
	}
}
