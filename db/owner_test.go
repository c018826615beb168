package db

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"flow/starlark/diag"
	"flow/workflows/record"
)

// A session is gone on with by one process of a host at a time.
func TestClaimSession(t *testing.T) {
	other := exec.Command("sleep", "600")
	if err := other.Start(); err != nil {
		t.Skip(err)
	}
	defer func() { _ = other.Wait() }()
	defer func() { _ = other.Process.Kill() }()
	host, _ := os.Hostname()
	pid := other.Process.Pid
	for _, c := range []struct {
		name, owner string
		refused     bool
	}{
		{"another process", `{"host":` + strconv.Quote(host) + `,"pid":` + strconv.Itoa(pid) + `,"started":"` + startTime(pid) + `"}`, true},
		{"a pid given away anew", `{"host":` + strconv.Quote(host) + `,"pid":` + strconv.Itoa(pid) + `,"started":"1"}`, startTime(pid) == ""},
		{"another host", `{"host":"elsewhere","pid":` + strconv.Itoa(pid) + `}`, false},
		{"a damaged owner", `17`, false},
		{"this process", "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, err := Open(t.Context(), filepath.Join(t.TempDir(), "flow.db"))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = d.Close() }()
			s := &record.Session{ID: "s1", Workflow: "w.star", Status: "running", Measurer: record.MeasurerSimulated}
			if err := d.BeginSession(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			if c.owner != "" {
				if _, err := d.writer.Exec(`UPDATE t_session SET doc = json_set(doc, '$.owner', json(?))`, c.owner); err != nil {
					t.Fatal(err)
				}
			}
			err = d.ClaimSession(t.Context(), s)
			if kind, _ := diag.KindOf(err); (err != nil) != c.refused || err != nil && kind != diag.Machine {
				t.Errorf("got %v, want refused: %t", err, c.refused)
			}
			s.Status = "stopped"
			if err := d.EndSession(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			if n, err := list(d.writer, `SELECT id FROM t_session WHERE doc ->> '$.owner' IS NULL`); err != nil || len(n) != 1 {
				t.Errorf("got %v, %v, want that nobody runs a session that is stopped", n, err)
			}
			if err := d.ClaimSession(t.Context(), s); err != nil {
				t.Errorf("got %v, want that a stopped session can be gone on with", err)
			}
		})
	}
}
