package machine

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// A pipe in the place of any file that flow finds in a folder that others can write to is never waited for.
func TestPipesInStateFolders(t *testing.T) {
	dir := t.TempDir()
	pipe := func(name string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mkfifo(path, 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	model := filepath.Join(dir, "model")
	put(t, "weights", model)
	pipe("locks/" + holderPrefix + "00.json")
	pipe("full/host.lock")
	pipe("undo/" + hostName() + "-00" + undoSuffix)
	cache, cacheLock := pipe("cache.json"), filepath.Join(dir, "other.json")
	pipe("other.json.lock")
	for name, c := range map[string]struct {
		do      func() error
		refused bool
	}{
		"holders": {func() error { Neighbours(filepath.Join(dir, "locks")); return nil }, false},
		"a lock":  {func() error { _, err := take(filepath.Join(dir, "full"), "host"); return err }, true},
		"a journal": {func() error {
			_, err := Settings{Undo: filepath.Join(dir, "undo")}.RestoreLeft(t.Context())
			return err
		}, true},
		"a cache":      {func() error { _, err := NewDigester(dir, cache).File(t.Context(), "model"); return err }, false},
		"a cache lock": {func() error { _, err := NewDigester(dir, cacheLock).File(t.Context(), "model"); return err }, false},
		"a receipt":    {func() error { parseReceipt(cache, model); return nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			done := make(chan error, 1)
			go func() { done <- c.do() }()
			limit := time.NewTimer(20 * time.Second)
			defer limit.Stop()
			select {
			case err := <-done:
				if (err != nil) != c.refused {
					t.Errorf("got %v, want it refused: %t", err, c.refused)
				}
			case <-limit.C:
				t.Fatal("it waits for the pipe")
			}
		})
	}
}
