package measure

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestReadRegular(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(at("good"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at("huge"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(at("huge"), fileMost+1); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(at("fifo"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"zero": "/dev/zero", "link": at("good")} {
		if err := os.Symlink(to, at(name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{"good": "", "link": "", "huge": "larger than 64 MiB", "fifo": "not a regular file", "zero": "not a regular file", ".": "not a regular file", "none": "no such file"} {
		b, err := readRegular(at(name))
		if want == "" && (err != nil || string(b) != "x") || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %.10q, %v, want %q", name, b, err, want)
		}
	}
}
