package main

// Nothing is lost wherever flow dies: it is killed at every durable write of a simulated session and at
// instants by chance of a real one, resumed, and must end as a session that nobody disturbed.

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"flow/db"
	"flow/workflows/record"
)

// campaign is a folder in which flow is run, killed and resumed.
type campaign struct {
	t    *testing.T
	dir  string
	path string // of flow
}

func newCampaign(t *testing.T, workflow string) *campaign {
	t.Helper()
	path, err := exec.LookPath("flow")
	if err != nil {
		t.Fatal(err)
	}
	c := &campaign{t: t, dir: t.TempDir(), path: path}
	for _, d := range []string{"tmp", "state", "home", "locks"} {
		if err := os.Mkdir(filepath.Join(c.dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(c.dir, "w.star"), []byte(workflow), 0o644); err != nil {
		t.Fatal(err)
	}
	return c
}

// flow prepares flow with a database of its own.
func (c *campaign) flow(database, killAt string, args ...string) *exec.Cmd {
	cmd := exec.Command(c.path, args...)
	cmd.Dir = c.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + c.in("tmp"), "XDG_STATE_HOME=" + c.in("state"), "HOME=" + c.in("home"),
		"FLOW_LOCK_DIR=" + c.in("locks"), "FLOW_DB=" + database, "GORACE=atexit_sleep_ms=0"}
	if killAt != "" {
		cmd.Env = append(cmd.Env, killAtVar+"="+killAt)
	}
	return cmd
}

func (c *campaign) in(name string) string { return filepath.Join(c.dir, name) }

// run runs flow to its end and reports whether it was killed. Any end but that and 0 is a failure.
func (c *campaign) run(database, killAt string, args ...string) (killed bool) {
	c.t.Helper()
	out, err := c.flow(database, killAt, args...).CombinedOutput()
	switch got := exitOf(err); got {
	case "0":
		return false
	case syscall.SIGKILL.String():
		return true
	default:
		c.t.Errorf("flow %v, killed at %q: ended with %s\n%s", args, killAt, got, out) // not Fatal: goroutines call this
		return false
	}
}

// outcome is what a session came to: what must not depend on where flow was killed.
type outcome struct {
	Status string
	Groups []groupOutcome
}

type groupOutcome struct {
	Name, Verdict, Stopped string
	Estimates              []record.Estimate
	Places                 map[string]int // ok arms by block and slot
}

// outcomeOf reads the one session of a database, and checks the file.
func (c *campaign) outcomeOf(database string) outcome {
	c.t.Helper()
	ctx := context.Background()
	d, err := db.OpenReadOnly(ctx, database)
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	whole, err := d.Query(ctx, "SELECT integrity_check FROM pragma_integrity_check", nil, 0)
	if err == nil && (len(whole.Rows) != 1 || whole.Rows[0][0] != "ok") {
		c.t.Errorf("%s: integrity: %v", database, whole.Rows)
	}
	ss, err := d.Sessions(ctx, 0)
	if err != nil || len(ss) != 1 {
		c.t.Fatalf("got %d sessions, want one (%v)", len(ss), err)
	}
	groups, err := d.Groups(ctx, ss[0].ID)
	if err != nil {
		c.t.Fatal(err)
	}
	o := outcome{Status: ss[0].Status}
	for _, g := range groups {
		x := groupOutcome{Name: g.Name, Verdict: g.Verdict, Stopped: g.Stopped, Places: map[string]int{}}
		for _, k := range g.Comparisons {
			if k.Estimate != nil {
				x.Estimates = append(x.Estimates, *k.Estimate)
			}
		}
		for _, a := range g.Arms {
			if a.Disposition == record.OK && a.Block >= 0 {
				x.Places[fmt.Sprintf("%d.%d", a.Block, a.Slot)]++
			}
		}
		o.Groups = append(o.Groups, x)
	}
	return o
}

func (o outcome) String() string {
	b, err := json.Marshal(o)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

const simulatedWorkflow = `
load("@flow//engines/sim.star", "sim_lever", "sim_server")
load("@flow//gates.star", "counts_agree", "no_swap_growth", "output_identical")
load("@flow//screens.star", "screen", "qualification")

sim = sim_server(levers = {"fast": "+20%", "slow": "-15%"})
work = workload(prompt = "Where does the river go?", max_tokens = 16)

def main(session):
    stack = []
    for x in [sim_lever("slow"), sim_lever("fast")]:
        result = session.run(screen(x, base = stack, engine = sim, workload = work, gates = [output_identical(), counts_agree(), no_swap_growth()]))
        if result.verdict == "better":
            stack = stack + [x]
    rows = session.query("select name, verdict from groups where session_id is not null order by position")
    session.note("%d groups" % len(rows))
    session.run(qualification(stack, engine = sim, workload = work, gates = []))
`

// TestKilledAtEveryWrite kills flow before and after each durable write. In short mode every ninth.
func TestKilledAtEveryWrite(t *testing.T) {
	t.Parallel()
	c := newCampaign(t, simulatedWorkflow)
	start := []string{"run", "w.star", "--quiet", "--seed", "11", "--simulate", "effect.fast=20%,effect.slow=-15%,sd=1%,drift=.1%/arm"}
	if c.run(c.in("whole.db"), "", start...) {
		t.Fatal("the undisturbed session was killed")
	}
	want := c.outcomeOf(c.in("whole.db"))
	if len(want.Groups) != 3 || want.Groups[1].Verdict != record.Better {
		t.Fatalf("the undisturbed session: %s", want)
	}
	step := 1
	switch {
	case raceEnabled: // each is two or three processes, which the race detector makes slow
		step = 25
	case testing.Short():
		step = 9
	}
	var wait sync.WaitGroup
	slots := make(chan struct{}, 2)
	ended := make(chan struct{})
	var once sync.Once
	tried := 0
	for n := 1; ; n += step {
		for _, at := range []string{fmt.Sprintf("%d-", n), fmt.Sprint(n)} {
			slots <- struct{}{}
			wait.Add(1)
			go func() {
				defer func() { <-slots; wait.Done() }()
				database := c.in("killed" + at + ".db")
				if !c.run(database, at, start...) {
					once.Do(func() { close(ended) })
					return
				}
				switch c.status(database) {
				case "":
					c.run(database, "", start...)
				case "running":
					c.run(database, "", "resume", "--quiet")
				}
				if got := c.outcomeOf(database); got.String() != want.String() {
					t.Errorf("killed at write %s:\ngot  %s\nwant %s", at, got, want)
				}
			}()
			tried++
		}
		select {
		case <-ended:
			wait.Wait()
			if n < 40 {
				t.Errorf("the session had only %d writes", n)
			}
			t.Logf("%d kills", tried)
			return
		default:
		}
	}
}

// status is that of the database's session; "" where flow died before there was one.
func (c *campaign) status(database string) string {
	d, err := db.OpenReadOnly(context.Background(), database)
	if err != nil {
		return ""
	}
	defer func() { _ = d.Close() }()
	ss, err := d.Sessions(context.Background(), 1)
	if err != nil {
		c.t.Error(err)
	}
	if len(ss) == 0 {
		return ""
	}
	return ss[0].Status
}

const realWorkflow = `
load("@flow//engines/sim.star", "sim_lever", "sim_server")
load("@flow//screens.star", "screen")

sim = sim_server(levers = {"fast": "+100%", "slow": "-50%"}, decode_tok_s = 300)
work = workload(prompt = "Where does the river go?", max_tokens = 12)

def main(session):
    for x in ["fast", "slow"]:
        session.run(screen(sim_lever(x), engine = sim, workload = work, name = x, min_effect = "10%", gates = []))
`

// TestKilledAtRandomInstants kills flow while real engines run, resumes it, and kills it again: the verdicts
// are those of an undisturbed session, no arm of a finished block is run twice, and no engine is left.
func TestKilledAtRandomInstants(t *testing.T) {
	t.Parallel()
	if testing.Short() && raceEnabled {
		t.Skip("real engines at full length")
	}
	kills := 20
	if testing.Short() || raceEnabled {
		kills = 4
	}
	c := newCampaign(t, realWorkflow)
	random := rand.New(rand.NewPCG(20, 26))
	for killed, round := 0, 0; killed < kills; round++ {
		database := c.in(fmt.Sprintf("real%d.db", round))
		args := []string{"run", "w.star", "--quiet", "--seed", fmt.Sprint(round)}
		for done := false; !done; {
			cmd := c.flow(database, "", args...)
			var words strings.Builder
			cmd.Stdout, cmd.Stderr = &words, &words
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			over := make(chan error, 1)
			go func() { over <- cmd.Wait() }()
			wait := time.Duration(20+random.IntN(1500)) * time.Millisecond
			if killed >= kills {
				wait = patience
			}
			before := map[string]string{}
			select {
			case err := <-over:
				if exitOf(err) != "0" {
					t.Fatalf("round %d: flow ended with %s\n%s", round, exitOf(err), words.String())
				}
				done = true
			case <-time.After(wait):
				_ = cmd.Process.Kill()
				<-over
				killed++
				before = c.wholeBlocks(database)
				c.nothingLeft()
			}
			switch c.status(database) {
			case "running":
				args = []string{"resume", "--quiet"}
			case "done":
				done = true
			}
			c.keeps(before, database)
		}
		o := c.outcomeOf(database)
		if len(o.Groups) != 2 || o.Groups[0].Verdict != record.Better || o.Groups[1].Verdict != record.Worse {
			t.Errorf("round %d: %s", round, o)
		}
		for _, g := range o.Groups {
			for place, n := range g.Places {
				if n != 1 {
					t.Errorf("round %d: group %s has %d arms that count at %s, want one", round, g.Name, n, place)
				}
			}
		}
		c.nothingLeft()
	}
}

// nothingLeft waits until no engine and no supervisor of this campaign runs. Supervisors see flow end by a
// pipe, so a kill takes them a moment.
func (c *campaign) nothingLeft() {
	c.t.Helper()
	var left []string
	if !poll(patience, func() bool { left = engines(c.dir); return len(left) == 0 }) {
		c.t.Fatalf("left behind:\n%s", strings.Join(left, "\n"))
	}
}

// wholeBlocks are the ids of the arms of every block that is whole, by group and block.
func (c *campaign) wholeBlocks(database string) map[string]string {
	c.t.Helper()
	out := map[string]string{}
	ctx := context.Background()
	d, err := db.OpenReadOnly(ctx, database)
	if err != nil {
		return out // flow died before there was anything to keep
	}
	defer func() { _ = d.Close() }()
	t, err := d.Query(ctx, `SELECT group_id || '/' || block AS block, group_concat(id, ' ') AS arms FROM (SELECT * FROM arms ORDER BY seq)
		WHERE disposition = 'ok' AND block >= 0 GROUP BY 1 HAVING count(*) = 4`, nil, 0)
	if err != nil {
		c.t.Fatal(err)
	}
	for i := range t.Rows {
		r := rowOf(t, i)
		out[cellText(r["block"])] = cellText(r["arms"])
	}
	return out
}

// keeps wants the arms of blocks that were whole to be the ones that count still.
func (c *campaign) keeps(before map[string]string, database string) {
	c.t.Helper()
	now := c.wholeBlocks(database)
	for block, arms := range before {
		if now[block] != arms {
			c.t.Errorf("%s: block %s counted arms %s, and now %s", database, block, arms, now[block])
		}
	}
}
