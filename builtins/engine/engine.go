// Package engine launches engines, knows when they are ready, ends them, and proves that nothing is left.
//
// Its opinion: flow never owns an engine directly. Between the two stands a supervisor, a small process of
// flow's own (see Supervise) which is the parent of everything the engine starts and which kills all of it
// when flow is gone, SIGKILL included. A parent-death signal alone binds to a thread and misses
// grandchildren; a process group alone misses what called setsid. Nothing is ever found or ended by name.
//
// Its neighbours: builtins/client talks to what runs here, builtins/machine hashes binaries and holds
// locks, builtins/hardware samples the tree of pids that Tree gives. builtins/engine/simengine is an engine.
package engine

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"flow/builtins/owner"
	"flow/workflows/plan"
	"flow/workflows/record"
)

// Options is what all launches of a session share.
type Options struct {
	Supervisor []string     // argv prefix that runs Supervise: {"/path/flow", "supervise"}; required unless the engine is attached
	Now        func() int64 // monotonic nanoseconds; nil is the machine's own clock
	Allow      []string     // environment variables passed through besides AllowedEnv; a trailing * matches
	Owner      *owner.Owner // who keeps records of what is started, for the next flow should this one be killed; nil keeps none
	Cgroups    string       // the cgroup v2 folder in which engines get a child; "" is flow's own, found through the mount table; "off" is none
}

// Launch is one launch.
type Launch struct {
	Engine  plan.Engine
	Command record.Command    // effective on the side: plan.Effective
	Vars    map[string]string // placeholders: out, flow, prompt_file, max_tokens, ctx, seed, repeat; port is chosen here where it is named
	Out     string            // the arm's folder; exists; holds engine.log, config files, and is the default directory
	Root    string            // the workflow's root: binaries with a slash, Dir, Files and Paths are relative to it
	Paths   []string          // further words that are paths where there is such a file: the values of parameters of that type
}

// StartError is an engine that did not start or did not become ready.
type StartError struct {
	Reason    string // in words, one line
	Permanent bool   // it would die the same way every time: no such file, an exit of its own before ready
	LogTail   string // the end of the log, "" when it never ran
	Err       error  // the cause, nil when Reason says it all
}

// Error is the reason and the cause.
func (e *StartError) Error() string {
	if e.Err != nil {
		return e.Reason + ": " + e.Err.Error()
	}
	return e.Reason
}

// Unwrap gives the cause.
func (e *StartError) Unwrap() error { return e.Err }

// ExitError is a command engine that ended, but not well.
type ExitError struct {
	Code      *int   // nil when a signal ended it
	Signal    string // "SIGSEGV"; "" when it exited
	OOMKilled bool
	LogTail   string
}

// Error says how it ended.
func (e *ExitError) Error() string {
	how := "ended in an unknown way"
	switch {
	case e.OOMKilled:
		how = "was killed for want of memory"
	case e.Signal != "":
		how = "was ended by " + e.Signal
	case e.Code != nil:
		how = fmt.Sprintf("exited with %d", *e.Code)
	}
	return "engine " + how
}

// What ended a process: record.Process.StoppedBy.
const (
	byItself = "itself"
	bySignal = "signal"
	byKill   = "kill"
)

// Process is a launched engine, or an attached one. Its methods may be called from several goroutines.
type Process struct {
	o        Options
	engine   plan.Engine
	timeouts plan.Timeouts
	vars     map[string]string
	out      string
	root     string
	attached bool
	stdout   bool  // stdout has a file of its own
	offset   int64 // Options.Now minus the machine's monotonic clock

	held    *owner.Held // its mark, and its record
	sup     *supervisor
	done    chan struct{} // the engine exited, or its supervisor is lost
	supGone chan struct{} // the supervisor ended
	stopMu  sync.Mutex    // one Stop at a time
	stopped bool          // under stopMu
	stopErr error         // under stopMu

	mu       sync.Mutex
	info     record.Process
	exited   bool
	stopping bool
	supLost  bool                  // the supervisor was killed from outside
	remain   []string              // what the supervisor could not kill
	foreign  string                // who holds our port, when it is not us
	environ  map[string]string     // last read of the engine's environment
	literals map[string]literalHit // searches of the binary
	finalLog string
}

// Done is closed when the engine exited. It stays open for an attached engine.
func (p *Process) Done() <-chan struct{} { return p.done }

// Info is a copy of what is known so far. Log, LogTail and LogBytes are filled in when the engine ended.
func (p *Process) Info() *record.Process {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.info
	c.Argv = slices.Clone(c.Argv)
	c.Env = maps.Clone(c.Env)
	c.Files = maps.Clone(c.Files)
	c.Leftovers = slices.Clone(c.Leftovers)
	if c.ExitCode != nil {
		code := *c.ExitCode
		c.ExitCode = &code
	}
	c.Log = p.finalLog
	return &c
}

// BaseURL is where a server answers: the attached URL, or http://127.0.0.1:PORT; "" without either.
func (p *Process) BaseURL() string {
	if p.attached {
		return trimSlash(p.engine.URL)
	}
	if p.info.Port == 0 { // set before the process is handed out
		return ""
	}
	return fmt.Sprintf("http://127.0.0.1:%d", p.info.Port)
}

func (p *Process) now() int64 { return p.o.Now() }

func trimSlash(s string) string {
	for len(s) > 0 && s[len(s)-1] == '/' {
		s = s[:len(s)-1]
	}
	return s
}

// duration in words for messages: "10s", "1.5s".
func words(d time.Duration) string { return d.Round(10 * time.Millisecond).String() }
