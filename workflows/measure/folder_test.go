package measure

import (
	"path/filepath"
	"testing"
)

// An engine runs in a folder of its own: every folder that it or flow is told of must be absolute.
func TestRelativeFolders(t *testing.T) {
	t.Chdir(t.TempDir())
	m, err := NewReal(RealOptions{Root: "/", Exe: "flow", Work: "kept", StateDir: "state", LockDir: "locks", SessionID: "s", KernelLog: "/dev/null"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Close() }()
	for _, dir := range []string{m.o.Work, m.o.StateDir, m.o.LockDir} {
		if !filepath.IsAbs(dir) {
			t.Errorf("got folder %q, want an absolute path", dir)
		}
	}
}
