package machine

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// asVerifier runs this binary as flow receipt, killed after a number of saves.
const asVerifier = "FLOW_TEST_VERIFY"

type verifying struct {
	Path, State string
	KillAt      int
}

func verifyAndDie(text string) int {
	var v verifying
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		fmt.Println(err)
		return 2
	}
	n := 0
	o := ReceiptOptions{State: v.State, every: receiptChunk, hook: func() {
		if n++; n == v.KillAt {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}}
	_, err := NewDigester("", filepath.Join(v.State, "digests.json")).Verify(context.Background(), v.Path, o)
	fmt.Println(err)
	return 0
}

// model writes a file of five and a half chunks that is old enough to be kept.
func model(t *testing.T, path string, seed byte) string {
	t.Helper()
	b := bytes.Repeat([]byte{seed, 2, 3, 5, 7, 11, 13}, (5*receiptChunk+receiptChunk/2)/7)
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(path, old, old); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func TestReceipt(t *testing.T) {
	dir := t.TempDir()
	path, state := filepath.Join(dir, "model.gguf"), filepath.Join(dir, "state")
	want := model(t, path, 1)

	b, err := json.Marshal(verifying{path, state, 3})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), asVerifier+"="+string(b))
	if out, err := cmd.CombinedOutput(); err == nil {
		t.Fatalf("was not killed: %s", out)
	}
	d := NewDigester("", filepath.Join(state, "digests.json"))
	o := ReceiptOptions{State: state, every: receiptChunk}
	var told []int64
	o.Progress = func(_ string, done, _ int64) { told = append(told, done) }
	r, err := d.Verify(t.Context(), path, o)
	if err != nil || r.SHA256 != want || r.Resumed != 3*receiptChunk || r.Known || r.Changed != "" {
		t.Fatalf("after the kill: %+v, %v, want %s from byte %d", r, err, want, 3*receiptChunk)
	}
	if len(told) != 3 || told[0] != 4*receiptChunk || told[2] != r.Bytes {
		t.Errorf("progress %v", told)
	}
	// A session finds the digest in its cache: the file is not read again.
	session := NewDigester("", filepath.Join(state, "digests.json"))
	session.OnProgress = func(string, int64, int64) { t.Error("a session read the file again") }
	session.every = 1
	if got, err := session.File(t.Context(), path); got != want || err != nil {
		t.Errorf("in a session: %s, %v", got, err)
	}
	if r, err = d.Verify(t.Context(), path, o); err != nil || !r.Known || r.SHA256 != want {
		t.Errorf("again: %+v, %v", r, err)
	}
	if r, err = d.Verify(t.Context(), path, ReceiptOptions{State: state, Again: true}); err != nil || r.Known || r.Changed != "" || r.SHA256 != want {
		t.Errorf("read again: %+v, %v", r, err)
	}

	other := model(t, path, 9)
	r, err = d.Verify(t.Context(), path, ReceiptOptions{State: state, Again: true})
	if err != nil || r.SHA256 != other || !strings.Contains(r.Changed, want) {
		t.Errorf("a changed file: %+v, %v", r, err)
	}
}

// A reading that was cancelled goes on; one of a file that has changed since begins anew.
func TestReceiptCancelled(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "model.gguf")
	want := model(t, path, 1)
	ctx, cancel := context.WithCancel(t.Context())
	o := ReceiptOptions{State: dir, Progress: func(_ string, done, _ int64) {
		if done == 2*receiptChunk {
			cancel()
		}
	}}
	d := NewDigester("", "")
	if _, err := d.Verify(ctx, path, o); err == nil {
		t.Fatal("was not cancelled")
	}
	r, err := d.Verify(t.Context(), path, ReceiptOptions{State: dir})
	if err != nil || r.Resumed != 2*receiptChunk || r.SHA256 != want {
		t.Errorf("got %+v, %v", r, err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	o.Again = true
	if _, err := d.Verify(ctx, path, o); err == nil {
		t.Fatal("was not cancelled")
	}
	cancel()
	want = model(t, path, 2)
	now := time.Now().Add(-time.Minute)
	if err := os.Chtimes(path, now, now); err != nil {
		t.Fatal(err)
	}
	r, err = d.Verify(t.Context(), path, ReceiptOptions{State: dir})
	if err != nil || r.Resumed != 0 || r.Warning == "" || r.SHA256 != want || !strings.Contains(r.Changed, "it was ") {
		t.Errorf("got %+v, %v", r, err)
	}
	if _, err := d.Verify(t.Context(), dir, ReceiptOptions{State: dir}); err == nil {
		t.Error("want an error for a folder")
	}
}

func TestDiskOf(t *testing.T) {
	sys := t.TempDir()
	put(t, "1\n", filepath.Join(sys, "devices/pci/nvme0n1/nvme0n1p2/partition"))
	put(t, "259:0\n", filepath.Join(sys, "devices/pci/nvme0n1/dev"))
	put(t, "259:2\n", filepath.Join(sys, "devices/pci/nvme0n1/nvme0n1p2/dev"))
	put(t, "8:0\n", filepath.Join(sys, "devices/pci/sda/dev"))
	put(t, "254:0\n", filepath.Join(sys, "devices/virtual/dm-0/dev"))
	for link, to := range map[string]string{
		"dev/block/259:2": "devices/pci/nvme0n1/nvme0n1p2", "dev/block/8:0": "devices/pci/sda", "dev/block/254:0": "devices/virtual/dm-0",
		"devices/virtual/dm-0/slaves/nvme0n1p2": "devices/pci/nvme0n1/nvme0n1p2", "devices/virtual/dm-0/slaves/sda": "devices/pci/sda",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(sys, link)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join(sys, to), filepath.Join(sys, link)); err != nil {
			t.Fatal(err)
		}
	}
	for number, want := range map[string]string{"259:2": "nvme0n1", "8:0": "sda", "254:0": "nvme0n1+sda", "0:55": ""} {
		if got := diskOf(sys, number); got != want {
			t.Errorf("%s: got %q, want %q", number, got, want)
		}
	}
}

// A file written a moment ago is verified, and nothing of it is kept: its time of change could not tell
// another write.
func TestReceiptOfAYoungFile(t *testing.T) {
	dir := t.TempDir()
	path, state := filepath.Join(dir, "model.gguf"), filepath.Join(dir, "state")
	for range 2 {
		if err := os.WriteFile(path, []byte("weights"), 0o644); err != nil {
			t.Fatal(err)
		}
		young := time.Now().Add(time.Minute) // young however slow this machine is
		if err := os.Chtimes(path, young, young); err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256([]byte("weights"))
		r, err := NewDigester("", filepath.Join(state, "digests.json")).Verify(t.Context(), path, ReceiptOptions{State: state})
		if err != nil || r.SHA256 != hex.EncodeToString(sum[:]) || !strings.Contains(r.Warning, "a moment ago") || r.Known {
			t.Fatalf("got %+v, %v, want its digest and a warning", r, err)
		}
	}
}
