package measure

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"flow/builtins/engine"
	"flow/starlark/diag"
)

func TestArmFilesMustBeWhole(t *testing.T) {
	room := func(n uint64) func(string) (uint64, error) {
		return func(string) (uint64, error) { return n, nil }
	}
	dir := t.TempDir()
	gone := whole(dir, room(1<<30))
	if k, _ := diag.KindOf(gone); gone == nil || k != diag.Machine || !strings.Contains(gone.Error(), "log is gone") {
		t.Errorf("no log: got %v, want the machine's trouble", gone)
	}
	if err := os.WriteFile(filepath.Join(dir, engine.LogFile), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := whole(dir, room(1<<30)); err != nil {
		t.Errorf("with room: %v", err)
	}
	full := whole(dir, room(4096))
	if k, _ := diag.KindOf(full); full == nil || k != diag.Machine || !strings.Contains(full.Error(), "no room was left") {
		t.Errorf("full: got %v, want the machine's trouble", full)
	}
	if left, err := freeBytes(dir); err != nil || left == 0 {
		t.Errorf("free bytes here: %d, %v", left, err)
	}
}
