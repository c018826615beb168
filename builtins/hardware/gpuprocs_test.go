package hardware

import (
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"flow/workflows/record"
)

// procOf makes a /proc of processes by pid and command line.
func procOf(t *testing.T, cmdlines map[int]string) string {
	t.Helper()
	root := t.TempDir()
	for pid, line := range cmdlines {
		dir := filepath.Join(root, strconv.Itoa(pid))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "cmdline"), []byte(strings.ReplaceAll(line, " ", "\x00")+"\x00"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// TestForeignOnGPU: who is on a device, by pid, with name and memory; what the driver does not say is not 0.
func TestForeignOnGPU(t *testing.T) {
	g := &scriptedGPU{uuid: "GPU-a", read: func(quantity) (float64, error) { return 1, nil },
		procs: []gpuProcess{{41, 512}, {7, 2048.5}}}
	free := &scriptedGPU{uuid: "GPU-b", read: g.read}
	srcs := Open(Options{Proc: procOf(t, map[int]string{7: "/usr/bin/python -m vllm.entrypoints", 41: "/usr/lib/xorg/Xorg :0"}), Sys: t.TempDir(), NVML: true, gpus: &scriptedGPUs{gpus: []gpu{g, free}}})
	defer closeAll(t, srcs)
	found, err := GPUProcesses(srcs)
	if err != nil || len(found) != 2 || found[0].String() != "nvml.0 python -m vllm.entrypoints (7), 2048 MiB" || found[1].String() != "nvml.0 Xorg :0 (41), 512 MiB" {
		t.Errorf("got %v, %v", found, err)
	}
	got := sampleAll(t, srcs, 0)
	if got["nvml.0.foreign_processes"] != 2 || got["nvml.0.foreign_mem_mib"] != 2560.5 || got["nvml.1.foreign_processes"] != 0 {
		t.Errorf("got %v", got)
	}
	g.procs[0].mib = math.NaN()
	if found, err = GPUProcesses(srcs); err != nil || found[1].MemMiB != nil || found[1].String() != "nvml.0 Xorg :0 (41)" {
		t.Errorf("without its memory: %v, %v", found, err)
	}
	// A process of another namespace comes: from then on nobody can be told apart.
	g.procs = append(g.procs, gpuProcess{99999, 1})
	if found, err = GPUProcesses(srcs); !errors.Is(err, errUnseenPID) || found != nil {
		t.Errorf("with a pid that is not there: %v, %v", found, err)
	}
	for _, s := range srcs {
		if s.Name() == "nvml.processes" {
			if err := s.Sample(0, func(name string, v float64) {
				if strings.HasPrefix(name, "nvml.0.") {
					t.Errorf("emitted %s %v", name, v)
				}
			}); !errors.Is(err, errUnseenPID) {
				t.Errorf("got %v", err)
			}
		}
	}
}

// TestPIDsUnseen: a container that does not see the driver's pids has no number, and says why.
func TestPIDsUnseen(t *testing.T) {
	g := &scriptedGPU{uuid: "GPU-a", read: func(quantity) (float64, error) { return 1, nil }, procs: []gpuProcess{{4711, 512}}}
	srcs := Open(Options{Proc: procOf(t, map[int]string{1: "sh"}), Sys: t.TempDir(), NVML: true, gpus: &scriptedGPUs{gpus: []gpu{g}}})
	defer closeAll(t, srcs)
	if _, err := GPUProcesses(srcs); err == nil || !strings.Contains(err.Error(), "its pid is not in /proc (4711)") {
		t.Errorf("got %v", err)
	}
	all := Sensors(srcs)
	for _, s := range all[slices.IndexFunc(all, func(s record.Sensor) bool { return s.Name == "nvml.0.foreign_processes" }):] {
		if s.Available || !strings.Contains(s.Why, "pid namespace") || !strings.Contains(s.Fix, "--pid=host") {
			t.Errorf("got %+v", s)
		}
	}
	srcs = Open(Options{Proc: t.TempDir(), Sys: t.TempDir()})
	defer closeAll(t, srcs)
	if _, err := GPUProcesses(srcs); err == nil || err.Error() != errNotAsked.Error() {
		t.Errorf("without NVML: %v", err)
	}
}

// TestOwnOnGPU: flow's own process and its descendants are not foreign.
func TestOwnOnGPU(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip(err)
	}
	cmd := exec.CommandContext(t.Context(), "sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Skip(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	g := &scriptedGPU{uuid: "GPU-a", read: func(quantity) (float64, error) { return 1, nil },
		procs: []gpuProcess{{os.Getpid(), 1}, {cmd.Process.Pid, 2}, {os.Getppid(), 3}}}
	p := &gpuProcs{o: Options{}.withDefaults()}
	found, err := p.foreign(0, g)
	if err != nil || len(found) != 1 || found[0].PID != os.Getppid() {
		t.Errorf("got %v, %v, want the parent alone", found, err)
	}
}
