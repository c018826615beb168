package machine

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// mostCPUs bounds the numbers in a set: more than any kernel is built for.
const mostCPUs = 1 << 16

// ParseCPUs reads a set of CPUs as the kernel and taskset write it: "0-3,8,10-11". The result is sorted
// and holds each number once; an empty text is an empty set.
func ParseCPUs(s string) ([]int, error) {
	var out []int
	s = strings.TrimSpace(s)
	if s == "" {
		return nil, nil
	}
	for _, part := range strings.Split(s, ",") {
		from, to, ranged := strings.Cut(part, "-")
		a, err := strconv.ParseUint(from, 10, 16)
		b := a
		if err == nil && ranged {
			b, err = strconv.ParseUint(to, 10, 16)
		}
		if err != nil || b < a || b >= mostCPUs {
			return nil, fmt.Errorf("got %q in a set of CPUs, want numbers and ranges such as 0-3,8", part)
		}
		for n := a; n <= b; n++ {
			out = append(out, int(n))
		}
		if len(out) > 2*mostCPUs {
			return nil, fmt.Errorf("got a set of more than %d CPUs", mostCPUs)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// AllowedCPUs is the set of CPUs that a process may run on, as the kernel writes it.
func AllowedCPUs(pid int) (string, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return "", err
	}
	for _, l := range strings.Split(string(b), "\n") {
		if v, ok := strings.CutPrefix(l, "Cpus_allowed_list:"); ok {
			return strings.TrimSpace(v), nil
		}
	}
	return "", fmt.Errorf("the status of process %d names no CPUs", pid)
}
