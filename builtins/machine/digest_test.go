package machine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"flow/starlark/diag"
)

func sha(text string) string {
	h := sha256.Sum256([]byte(text))
	return hex.EncodeToString(h[:])
}

// aged writes a file that is old enough to be kept.
func aged(t *testing.T, text string, parts ...string) string {
	t.Helper()
	put(t, text, parts...)
	path := filepath.Join(parts...)
	at := time.Date(2026, 9, 1, 12, 0, 0, 123456789, time.UTC)
	if err := os.Chtimes(path, at, at); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFile(t *testing.T) {
	root := t.TempDir()
	put(t, "Once upon a time", root, "prompts", "main.txt")
	put(t, "", root, "empty")
	d := NewDigester(root, "")
	for path, want := range map[string]string{"prompts/main.txt": sha("Once upon a time"), filepath.Join(root, "prompts/main.txt"): sha("Once upon a time"), "empty": sha("")} {
		if got, err := d.File(context.Background(), path); err != nil || got != want {
			t.Errorf("%s: got %s, %v, want %s", path, got, err, want)
		}
	}
}

// TestErrorsNameTheFileAsWritten, and not where it would be on this machine.
func TestErrorsNameTheFileAsWritten(t *testing.T) {
	root := t.TempDir()
	put(t, "#!/bin/sh\n", root, "not-executable")
	d := NewDigester(root, "")
	for _, c := range []struct {
		f    func(context.Context, string) (string, error)
		name string
		want string
		fix  string
		is   error
	}{
		{d.File, "prompts/none.txt", `file: "prompts/none.txt": no such file or directory`, "relative paths start at the workflow's folder", fs.ErrNotExist},
		{d.File, "", "file: got an empty name", "name a file", nil},
		{d.Binary, "./build/llama-server", `binary: "./build/llama-server": no such file or directory`, "build it, or correct the path", fs.ErrNotExist},
		{d.Binary, "no-such-program-anywhere", `binary: "no-such-program-anywhere": executable file not found in $PATH`, "install it", nil},
		{d.Binary, "./not-executable", `binary: "./not-executable": permission denied`, "chmod +x ./not-executable", fs.ErrPermission},
		{d.Binary, "", "binary: got an empty name", "name a file", nil},
	} {
		_, err := c.f(context.Background(), c.name)
		var e *diag.Error
		if !errors.As(err, &e) || e.Kind != diag.Workflow || err.Error() != c.want || !strings.Contains(e.Fix, c.fix) || c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%q: got %v (%+v), want %s", c.name, err, e, c.want)
		}
		if strings.Contains(err.Error(), root) {
			t.Errorf("%q: the machine's path is in %v", c.name, err)
		}
	}
}

func TestBinary(t *testing.T) {
	root := t.TempDir()
	script := "#!/usr/bin/env python3\nprint(1)\n"
	put(t, script, root, "bin", "engine")
	put(t, "another", root, "path", "engine")
	for _, p := range []string{"bin/engine", "path/engine"} {
		if err := os.Chmod(filepath.Join(root, p), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", filepath.Join(root, "path"))
	d := NewDigester(root, "")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	own, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"bin/engine": sha(script), "./bin/engine": sha(script), filepath.Join(root, "bin/engine"): sha(script), "engine": sha("another"), Flow: sha(string(own))} {
		if got, err := d.Binary(context.Background(), name); err != nil || got != want {
			t.Errorf("%s: got %s, %v, want %s", name, got, err, want)
		}
	}
}

// TestFolder: names and contents count, the place does not; links are followed.
func TestFolder(t *testing.T) {
	digest := func(root string) string {
		got, err := NewDigester(root, "").File(context.Background(), "model")
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	a, b := t.TempDir(), t.TempDir()
	for _, root := range []string{a, b} {
		put(t, "weights", root, "model", "part-1.safetensors")
		put(t, "{}", root, "model", "config", "config.json")
	}
	if digest(a) != digest(b) {
		t.Error("two equal folders differ")
	}
	if want := sha(fmt.Sprintf("config/config.json\x00%s\npart-1.safetensors\x00%s\n", sha("{}"), sha("weights"))); digest(a) != want {
		t.Errorf("got %s, want %s", digest(a), want)
	}
	blob := filepath.Join(b, "blob")
	if err := os.Rename(filepath.Join(b, "model", "part-1.safetensors"), blob); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(blob, filepath.Join(b, "model", "part-1.safetensors")); err != nil {
		t.Fatal(err)
	}
	if digest(a) != digest(b) {
		t.Error("a link to the same content differs")
	}
	put(t, "weightz", blob)
	if digest(a) == digest(b) {
		t.Error("another content is the same")
	}
}

// TestKept: a digest is kept by device, inode, size and modification time, for the next process, too. To
// see it, the content is changed behind its back.
func TestKept(t *testing.T) {
	root := t.TempDir()
	cache := filepath.Join(t.TempDir(), "digests.json")
	ctx := context.Background()
	model := aged(t, "one", root, "model.gguf")
	first := NewDigester(root, cache)
	if got, err := first.File(ctx, "model.gguf"); err != nil || got != sha("one") {
		t.Fatalf("got %s, %v", got, err)
	}
	aged(t, "two", model) // same inode, size and time
	for i, d := range []*Digester{first, NewDigester(root, cache)} {
		if got, err := d.File(ctx, "model.gguf"); err != nil || got != sha("one") {
			t.Errorf("digester %d read the file again: %s, %v", i, got, err)
		}
	}
	later := time.Now().Add(-time.Hour)
	if err := os.Chtimes(model, later, later); err != nil {
		t.Fatal(err)
	}
	if got, err := first.File(ctx, "model.gguf"); err != nil || got != sha("two") {
		t.Errorf("a new time: got %s, %v, want %s", got, err, sha("two"))
	}
	aged(t, "three", model)
	if got, err := first.File(ctx, "model.gguf"); err != nil || got != sha("three") {
		t.Errorf("a new size: got %s, %v, want %s", got, err, sha("three"))
	}
	if err := first.CacheError(); err != nil {
		t.Error(err)
	}
}

// TestYoungFilesAreNotKept: they may be written again within the resolution of their time.
func TestYoungFilesAreNotKept(t *testing.T) {
	root := t.TempDir()
	cache := filepath.Join(t.TempDir(), "digests.json")
	d := NewDigester(root, cache)
	put(t, "one", root, "prompt")
	info, err := os.Stat(filepath.Join(root, "prompt"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.File(context.Background(), "prompt"); err != nil {
		t.Fatal(err)
	}
	put(t, "two", root, "prompt")
	if err := os.Chtimes(filepath.Join(root, "prompt"), info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	if got, err := d.File(context.Background(), "prompt"); err != nil || got != sha("two") {
		t.Errorf("got %s, %v, want %s", got, err, sha("two"))
	}
}

// TestOneReading: callers at the same time share one reading, seen by its progress.
func TestOneReading(t *testing.T) {
	root := t.TempDir()
	path := aged(t, "", root, "model.gguf")
	const size = often + chunk
	if err := os.Truncate(path, size); err != nil {
		t.Fatal(err)
	}
	d := reporting(root)
	hold := make(chan struct{})
	var ends, calls atomic.Int32
	d.OnProgress = func(path string, done, total int64) {
		if path != "model.gguf" || total != size || done > total {
			t.Errorf("progress of %s: %d of %d", path, done, total)
		}
		if calls.Add(1) == 1 {
			<-hold // until everyone has asked
		}
		if done == total {
			ends.Add(1)
		}
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, err := d.File(context.Background(), "model.gguf"); err != nil {
				t.Error(err)
			}
		})
	}
	waitFor(t, "eight callers", func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, f := range d.flights {
			return f.waiters == 8
		}
		return false
	})
	close(hold)
	wg.Wait()
	if ends.Load() != 1 || calls.Load() < 2 {
		t.Errorf("%d readings, %d calls", ends.Load(), calls.Load())
	}
}

// often is how often these tests are told of progress: their files need not be large then.
const often = 2 * chunk

func reporting(root string) *Digester {
	d := NewDigester(root, "")
	d.every = often
	return d
}

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not after 20 s", what)
		}
	}
}

// TestCancel: who gives up leaves the others their reading; when all have, it ends, and the next caller
// starts anew.
func TestCancel(t *testing.T) {
	root := t.TempDir()
	path := aged(t, "", root, "model.gguf")
	if err := os.Truncate(path, 2*often); err != nil {
		t.Fatal(err)
	}
	d := reporting(root)
	reached, hold := make(chan struct{}, 1), make(chan struct{})
	d.OnProgress = func(string, int64, int64) {
		select {
		case reached <- struct{}{}:
		default:
		}
		<-hold
	}
	ctx, cancel := context.WithCancel(context.Background())
	got := make(chan error, 2)
	for range 2 {
		go func() { _, err := d.File(ctx, "model.gguf"); got <- err }()
	}
	<-reached
	waitFor(t, "two callers", func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, f := range d.flights {
			return f.waiters == 2
		}
		return false
	})
	cancel()
	for range 2 {
		if err := <-got; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want context.Canceled", err)
		}
	}
	d.mu.Lock()
	if len(d.flights) > 0 {
		t.Error("a reading that nobody waits for is still offered")
	}
	d.mu.Unlock()
	close(hold)
	if _, err := d.File(context.Background(), "model.gguf"); err != nil {
		t.Errorf("the next caller: %v", err)
	}
}

// TestManyProcesses: digesters that share a cache file lose nothing of each other.
func TestManyProcesses(t *testing.T) {
	root := t.TempDir()
	cache := filepath.Join(t.TempDir(), "digests.json")
	const n = 6
	for i := range n {
		for j := range 4 {
			aged(t, fmt.Sprint(i, j), root, fmt.Sprintf("f%d-%d", i, j))
		}
	}
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			d := NewDigester(root, cache)
			for j := range 4 {
				if _, err := d.File(context.Background(), fmt.Sprintf("f%d-%d", i, j)); err != nil {
					t.Error(err)
				}
			}
			if err := d.CacheError(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	b, err := os.ReadFile(cache)
	if err != nil {
		t.Fatal(err)
	}
	if kept := parseCache(b); len(kept) != 4*n {
		t.Errorf("%d digests kept, want %d", len(kept), 4*n)
	}
	if left, err := filepath.Glob(cache + ".[0-9]*"); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestBadCache: a damaged cache, one of another version, and one that cannot be written cost time only.
func TestBadCache(t *testing.T) {
	root := t.TempDir()
	model := aged(t, "one", root, "model.gguf")
	info, err := os.Stat(model)
	if err != nil {
		t.Fatal(err)
	}
	form := func(version int, digest string) string {
		b, err := json.Marshal(cacheForm{version, map[string]string{identity(info): digest}})
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for what, text := range map[string]string{"damaged": "{\"version\":1,", "empty": "", "other version": form(2, sha("wrong")), "no digest": form(1, "abc")} {
		cache := filepath.Join(t.TempDir(), "digests.json")
		put(t, text, cache)
		d := NewDigester(root, cache)
		if got, err := d.File(context.Background(), "model.gguf"); err != nil || got != sha("one") {
			t.Errorf("%s: got %s, %v", what, got, err)
		}
		b, err := os.ReadFile(cache)
		if err != nil || len(parseCache(b)) != 1 {
			t.Errorf("%s: is not put right: %s, %v", what, b, err)
		}
	}
	d := NewDigester(root, filepath.Join(root, "no", "such", "folder", "digests.json"))
	if got, err := d.File(context.Background(), "model.gguf"); err != nil || got != sha("one") || d.CacheError() == nil {
		t.Errorf("got %s, %v, cache error %v", got, err, d.CacheError())
	}
}

// TestChangedWhileRead: a file that grows under the reader has no digest.
func TestChangedWhileRead(t *testing.T) {
	root := t.TempDir()
	path := aged(t, "", root, "model.gguf")
	if err := os.Truncate(path, often+chunk); err != nil {
		t.Fatal(err)
	}
	d := reporting(root)
	var once sync.Once
	d.OnProgress = func(string, int64, int64) {
		once.Do(func() {
			if err := os.Truncate(path, often+2*chunk); err != nil {
				t.Error(err)
			}
		})
	}
	_, err := d.File(context.Background(), "model.gguf")
	var e *diag.Error
	if !errors.As(err, &e) || e.Kind != diag.Machine || !strings.Contains(err.Error(), `"model.gguf" changed while it was read`) {
		t.Errorf("got %v", err)
	}
}

// BenchmarkDigest is the rate at which a model is read that is in the page cache.
func BenchmarkDigest(b *testing.B) {
	root := b.TempDir()
	path := filepath.Join(root, "model")
	if err := os.WriteFile(path, make([]byte, 64<<20), 0o644); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(64 << 20)
	for b.Loop() {
		if _, err := NewDigester(root, "").File(context.Background(), "model"); err != nil {
			b.Fatal(err)
		}
	}
}
