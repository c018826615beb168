package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"flow/db"
)

// BenchmarkCheck checks each example as `flow check` does, without the start of the process.
func BenchmarkCheck(b *testing.B) {
	files, err := filepath.Glob("../../examples/*.star")
	if err != nil || len(files) == 0 {
		b.Fatal("no examples", err)
	}
	for _, f := range files {
		b.Run(filepath.Base(f), func(b *testing.B) {
			for b.Loop() {
				if _, err := check(b.Context(), f, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkSimulatedSession runs stack-screen on the simulated measurer, with and without a database.
func BenchmarkSimulatedSession(b *testing.B) {
	const file = "../../examples/stack-screen.star"
	const model = "effect.fast=20%,effect.slow=-15%,sd=.5%"
	b.Run("memory", func(b *testing.B) {
		w, err := loadWorkflow(b.Context(), file, loadOptions{})
		if err != nil {
			b.Fatal(err)
		}
		arms := 0
		for b.Loop() {
			n, err := rehearse(b.Context(), w, "")
			if err != nil {
				b.Fatal(err)
			}
			arms += n.arms
		}
		b.ReportMetric(float64(arms)/b.Elapsed().Seconds(), "arms/s")
	})
	b.Run("sqlite", func(b *testing.B) {
		b.Setenv("NO_COLOR", "1")
		arms := 0
		for b.Loop() {
			a := newApp(nil, io.Discard, io.Discard)
			a.dbPath = filepath.Join(b.TempDir(), "flow.db")
			if code := main1(b.Context(), a, []string{"run", file, "--simulate", model, "--seed", "7", "-q"}); code != 0 {
				b.Fatalf("exit %d", code)
			}
			arms += countArms(b, a)
		}
		b.ReportMetric(float64(arms)/b.Elapsed().Seconds(), "arms/s")
	})
}

func countArms(b *testing.B, a *app) int {
	b.Helper()
	d, err := db.OpenReadOnly(b.Context(), a.dbPath)
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	t, err := d.Query(b.Context(), "select count(*) from arms", nil, 1)
	if err != nil {
		b.Fatal(err)
	}
	n, ok := t.Rows[0][0].(int64)
	if !ok {
		b.Fatalf("got %T", t.Rows[0][0])
	}
	return int(n)
}

// overheadWorkflow runs arms of a program that does nothing, so that an arm's time is flow's own.
const overheadWorkflow = `
true_ = engine("true", command = ["true"])

def main(session):
    session.run(group("noise", role = "noise-floor", sides = {"A": side(true_), "B": side(true_)}, primary = "wall_s",
        stops = [stop("cap", cap = 8)]))
`

// BenchmarkArmOverhead is the whole time of an arm of /bin/true, recorded durably, against the time of the
// bare program started by os/exec in the same run.
func BenchmarkArmOverhead(b *testing.B) {
	dir := b.TempDir()
	file := filepath.Join(dir, "true.star")
	if err := os.WriteFile(file, []byte(overheadWorkflow), 0o644); err != nil {
		b.Fatal(err)
	}
	flow := filepath.Join(dir, "flow-bench")
	if out, err := exec.Command("go", "build", "-o", flow, ".").CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	const arms = 32
	var bare, whole time.Duration
	for b.Loop() {
		began := time.Now()
		for range arms {
			if err := exec.Command("true").Run(); err != nil {
				b.Fatal(err)
			}
		}
		bare += time.Since(began)
		cmd := exec.Command(flow, "run", "-q", "--db", filepath.Join(b.TempDir(), "x.db"), file)
		cmd.Env = append(os.Environ(), "FLOW_LOCK_DIR="+dir, "XDG_STATE_HOME="+dir)
		began = time.Now()
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("%v: %s", err, out)
		}
		whole += time.Since(began)
	}
	n := float64(b.N * arms)
	b.ReportMetric(float64(bare.Microseconds())/n/1000, "bare-ms/arm")
	b.ReportMetric(float64(whole.Microseconds())/n/1000, "flow-ms/arm")
}
