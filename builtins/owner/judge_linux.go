package owner

// Which of the processes that carry a mark are flow's. An environment is copied easily, by a shell that looks
// into an engine or by whatever was started from there, so the mark needs a second witness.

import (
	"os"
	"slices"
	"strconv"
)

// evidence is what a record's processes are judged by.
type evidence struct {
	table  map[int]Stat // all that run
	marked []Process    // carry the mark
	sure   []Process    // by number and start time, or in the engine's own cgroup
	live   []Process    // flows that run and have a record
	spared map[int]bool // never ours to end: this process and those above it
}

// judge gives what is the record's: what is sure; what carries the mark and is below its flow or supervisor,
// or lost its parents as nothing but flow's own would have; and with these all below them, and the engine's
// session. The rest of what carries the mark is suspect.
func (r Record) judge(e evidence) (ours []Process, suspects []suspect) {
	running := e.below(e.live)
	below := e.below([]Process{r.Flow, r.Supervisor})
	mine := map[int]bool{}
	add := func(p Process) {
		if s, ok := e.table[p.PID]; ok && s.Start == p.Start && !s.Dead() && !mine[p.PID] && !running[p.PID] && !e.spared[p.PID] {
			mine[p.PID] = true
			ours = append(ours, p)
		}
	}
	for _, p := range e.sure {
		add(p)
	}
	why := map[int]string{}
	for _, p := range e.marked {
		switch s := e.table[p.PID]; {
		case running[p.PID]:
			why[p.PID] = "it is a flow that runs, or below one"
		case below[p.PID], r.SID != 0 && s.SID == r.SID && e.session(r):
			add(p)
		default:
			if why[p.PID] = e.doubt(r, s); why[p.PID] == "" {
				add(p)
			}
		}
	}
	session := false
	for more := true; more; {
		for pid := range mine {
			session = session || r.SID != 0 && e.table[pid].SID == r.SID && e.session(r)
		}
		n := len(ours)
		for pid, s := range e.table {
			if mine[s.Parent] || session && s.SID == r.SID {
				add(Process{PID: pid, Start: s.Start})
			}
		}
		more = len(ours) > n
	}
	for _, p := range e.marked {
		if !mine[p.PID] && !e.spared[p.PID] {
			suspects = append(suspects, suspect{p, why[p.PID]})
		}
	}
	return compact(ours), suspects
}

// doubt says why the mark of a process that is below nothing of the record's is not enough; "" when the rest
// says the same: it is younger than its flow, has lost its parents to one who takes such in, and neither it
// nor anything below it has a terminal that flow did not have.
func (e evidence) doubt(r Record, s Stat) string {
	if r.Flow.Start != 0 && s.Start < r.Flow.Start {
		return "it is older than that flow"
	}
	adopted := s.Parent == 1
	for _, a := range r.Adopters {
		adopted = adopted || a.PID == s.Parent && a.Start == e.table[a.PID].Start
	}
	if !adopted {
		return "its parent, pid " + strconv.Itoa(s.Parent) + ", was not started by that flow"
	}
	self := Process{PID: s.PID, Start: s.Start}
	for pid := range e.below([]Process{self}) {
		if x := e.table[pid]; x.TTY != 0 && x.SID != r.FlowSID {
			return "a terminal belongs to it that was not that flow's"
		}
	}
	return ""
}

// session: the number of the record's session means what it did. A number is not given again while a process
// of the session runs, so only another leader shows that it was.
func (e evidence) session(r Record) bool {
	leader, ok := e.table[r.SID]
	return !ok || leader.Dead() || r.Engine.PID != r.SID || leader.Start == r.Engine.Start
}

// below are the processes of tops that run, and all that are below them.
func (e evidence) below(tops []Process) map[int]bool {
	in := map[int]bool{}
	for _, p := range tops {
		if s, ok := e.table[p.PID]; ok && p.PID > 1 && s.Start == p.Start {
			in[p.PID] = true
		}
	}
	for more := len(in) > 0; more; {
		more = false
		for pid, s := range e.table {
			if in[s.Parent] && !in[pid] {
				in[pid], more = true, true
			}
		}
	}
	return in
}

// origin says where this process stands: its session, and the processes above it that are outside of that.
// Nothing shows which of them takes in what loses its parents, but a shell that runs flow is in its session.
func origin() (sid int, adopters []Process) {
	self, _ := ReadStat(os.Getpid())
	for pid := range above() {
		if s, ok := ReadStat(pid); ok && (pid == 1 || s.SID != self.SID) {
			adopters = append(adopters, Process{PID: pid, Start: s.Start})
		}
	}
	return self.SID, compact(adopters)
}

// above are this process and all that it was started by, up to the first.
func above() map[int]bool {
	out := map[int]bool{}
	for pid := os.Getpid(); pid > 0 && !out[pid]; {
		out[pid] = true
		s, _ := ReadStat(pid)
		pid = s.Parent
	}
	return out
}

// all reads all that runs.
func all() evidence {
	e := evidence{table: map[int]Stat{}, spared: above()}
	for _, pid := range PIDs() {
		if s, ok := ReadStat(pid); ok {
			e.table[pid] = s
		}
	}
	return e
}

// find gives the marked processes that are below this one or were left by what is.
func find(id string) []Process {
	marked := marked(id)
	if len(marked) == 0 {
		return nil
	}
	r := Record{ID: id, Flow: Self()}
	r.FlowSID, r.Adopters = origin()
	e := all()
	e.marked = marked
	ours, _ := r.judge(e)
	return slices.DeleteFunc(ours, func(p Process) bool { return !slices.Contains(marked, p) })
}

// processes are what of a record lives: what carries its mark; the engine, which may have written over its
// environment, as a program does that names itself; what hangs together with one of those; and what sits in
// the engine's own cgroup. Of another pid namespace no number means anything to us, so all is suspect.
func (r Record) processes(live []Process) (ours []Process, suspects []suspect) {
	marked := marked(r.ID)
	if !r.here() {
		for _, p := range marked {
			suspects = append(suspects, suspect{p, "that flow was in another pid namespace"})
		}
		return nil, suspects
	}
	e := all()
	e.marked, e.live = marked, live
	if r.Engine.Alive() {
		e.sure = append(e.sure, r.Engine)
	}
	for _, pid := range r.members() {
		if p := Find(pid); p.PID != 0 {
			e.sure = append(e.sure, p)
		}
	}
	return r.judge(e)
}
