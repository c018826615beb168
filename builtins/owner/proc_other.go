//go:build unix && !linux

package owner

// Elsewhere neither environments nor start times are shown to us: nothing can be told for sure, so nothing
// is ended.

import (
	"fmt"
	"os"
)

// CanFind is false: what left its parents and its session is not found here.
const CanFind = false

func boot() string { return "" }

func namespace() string { return "" }

// Self is this process; its start is not known.
func Self() Process { return Process{PID: os.Getpid()} }

// Find is a process by its number.
func Find(pid int) Process { return Process{PID: pid} }

// Alive cannot be told without a start time.
func (p Process) Alive() bool { return false }

func (p Process) kill() {}

func marked(string) []Process { return nil }

func find(string) []Process { return nil }

func origin() (sid int, adopters []Process) { return 0, nil }

func (r Record) processes([]Process) (ours []Process, suspects []suspect) { return nil, nil }

// ReadStat has nothing to read.
func ReadStat(int) (s Stat, ok bool) { return Stat{}, false }

// Describe names a process.
func Describe(pid int) string { return fmt.Sprintf("pid %d", pid) }
