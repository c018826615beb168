package command

import (
	"fmt"
	"os"
	"strconv"

	"flow/builtins/owner"
)

// names are the live members of a process group. A dead one that nobody reaps holds nothing.
func names(pgid int) []string {
	d, err := os.Open("/proc")
	if err != nil {
		return []string{fmt.Sprintf("process group %d", pgid)}
	}
	defer d.Close()
	all, _ := d.Readdirnames(-1)
	var out []string
	for _, name := range all {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if s, ok := owner.ReadStat(pid); ok && s.Group == pgid && !s.Dead() {
			out = append(out, owner.Describe(pid))
		}
	}
	return out
}
