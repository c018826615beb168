package machine

// Digests of files. A model of hundreds of gigabytes is read once: its digest is kept by device, inode,
// size and modification time. What is written a moment ago may be written again within the resolution of
// the time stamp, so it is not kept (git's index knows the trap as "racy").

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"flow/starlark/diag"
	"flow/workflows/plan"
)

// Flow is the word for flow's own binary in a command.
const Flow = "{flow}"

const (
	racy  = 2 * time.Second // younger files are not kept
	chunk = 1 << 20
)

// Digester says what files and binaries are, as plan.Digests. It may be used from several goroutines, and
// its cache file from several processes.
type Digester struct {
	// OnProgress is told how far the reading of a large file is. Set it before the first use; it is called
	// from another goroutine. nil: nobody is told.
	OnProgress func(path string, done, total int64)

	every     int64 // bytes between calls of OnProgress, and the size of files that it is called for; 64 MiB
	root      string
	cacheFile string // "": nothing is kept between processes

	mu       sync.Mutex
	loaded   bool
	known    map[string]string // key to digest
	flights  map[string]*flight
	cacheErr error
}

var _ plan.Digests = (*Digester)(nil)

// flight is one reading of a file that several callers wait for. It is cancelled when none is left.
type flight struct {
	done    chan struct{}
	cancel  context.CancelFunc
	waiters int
	sha     string
	err     error
}

// NewDigester digests files below root (for relative names) and keeps what it finds in cacheFile; "" keeps
// it in memory.
func NewDigester(root, cacheFile string) *Digester {
	return &Digester{every: 64 << 20, root: root, cacheFile: cacheFile, known: map[string]string{}, flights: map[string]*flight{}}
}

// File is the SHA-256 of a file, by a name that is absolute or relative to the root. A directory (a model
// in several files) is the digest of its files' names and digests.
func (d *Digester) File(ctx context.Context, path string) (plan.Hash, error) {
	full := path
	if !filepath.IsAbs(full) {
		full = filepath.Join(d.root, filepath.FromSlash(path))
	}
	info, err := os.Stat(full)
	if err != nil || path == "" {
		return "", unreadable("file", path, err, "put the file there; relative paths start at the workflow's folder")
	}
	if info.IsDir() {
		return d.directory(ctx, path, full)
	}
	return d.digest(ctx, path, full)
}

// Binary is the SHA-256 of what a command's first word runs. A script is itself, not its interpreter.
func (d *Digester) Binary(ctx context.Context, name string) (plan.Hash, error) {
	full, err := d.Resolve(name)
	if err != nil {
		return "", err
	}
	return d.digest(ctx, name, full)
}

// Resolve is the file that a command's first word runs: {flow} is flow itself, a name with a slash is
// absolute or relative to the root, any other is looked up in PATH.
func (d *Digester) Resolve(name string) (string, error) {
	if name == Flow {
		return os.Executable()
	}
	full := name
	if strings.Contains(name, "/") && !filepath.IsAbs(name) {
		full = filepath.Join(d.root, filepath.FromSlash(name))
	}
	found, err := exec.LookPath(full)
	if err != nil {
		var e *exec.Error
		if errors.As(err, &e) {
			err = e.Err
		}
		fix := "install it, or write the path of the binary"
		switch {
		case errors.Is(err, fs.ErrPermission):
			fix = "make it executable: chmod +x " + name
		case strings.Contains(name, "/"):
			fix = "build it, or correct the path; relative paths start at the workflow's folder"
		}
		return "", unreadable("binary", name, err, fix)
	}
	return found, nil
}

// CacheError is why digests could not be kept, nil when they could. It costs time, not correctness.
func (d *Digester) CacheError() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.cacheErr
}

func unreadable(what, path string, err error, fix string) error {
	if path == "" {
		return &diag.Error{Kind: diag.Workflow, Op: what, Msg: "got an empty name", Fix: "name a file"}
	}
	var p *fs.PathError
	if errors.As(err, &p) {
		err = p.Err // the name as it was written is in the message; the machine's is nobody's business
	}
	return &diag.Error{Kind: diag.Workflow, Op: what, Msg: fmt.Sprintf("%q", path), Err: err, Fix: fix}
}

// directory digests the files below a directory in the order of their names.
func (d *Digester) directory(ctx context.Context, path, full string) (plan.Hash, error) {
	var names []string
	err := filepath.WalkDir(full, func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Stat(p) // through links: a model folder of the usual hub is made of them
		if err != nil {
			return err
		}
		if info.Mode().IsRegular() {
			rel, err := filepath.Rel(full, p)
			if err != nil {
				return err
			}
			names = append(names, filepath.ToSlash(rel))
		}
		return ctx.Err()
	})
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if err != nil {
		return "", unreadable("file", path, err, "make everything in the folder readable")
	}
	slices.Sort(names)
	h := sha256.New()
	for _, n := range names {
		sha, err := d.digest(ctx, path+"/"+n, filepath.Join(full, filepath.FromSlash(n)))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%s\x00%s\n", n, sha)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// identity is what a digest is kept by.
func identity(info fs.FileInfo) string {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return fmt.Sprintf("%d:%d:%d:%d", uint64(st.Dev), uint64(st.Ino), info.Size(), info.ModTime().UnixNano())
}

// digest reads full unless its digest is known; path is its name as it was written.
func (d *Digester) digest(ctx context.Context, path, full string) (string, error) {
	info, err := os.Stat(full)
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("not a regular file")
	}
	if err != nil {
		return "", unreadable("file", path, err, "name a file that can be read")
	}
	key := identity(info)
	d.mu.Lock()
	d.load()
	if sha, ok := d.known[key]; ok {
		d.mu.Unlock()
		return sha, nil
	}
	f := d.flights[key]
	if f == nil {
		f = d.fly(key, path, full)
	}
	f.waiters++
	d.mu.Unlock()
	select {
	case <-f.done:
		return f.sha, f.err
	case <-ctx.Done():
		d.mu.Lock()
		if f.waiters--; f.waiters == 0 {
			f.cancel()
			if d.flights[key] == f { // whoever comes now starts anew
				delete(d.flights, key)
			}
		}
		d.mu.Unlock()
		return "", context.Cause(ctx)
	}
}

// fly starts to read a file. d.mu is held.
func (d *Digester) fly(key, path, full string) *flight {
	ctx, cancel := context.WithCancel(context.Background())
	f := &flight{done: make(chan struct{}), cancel: cancel}
	d.flights[key] = f
	go func() {
		defer cancel()
		sha, info, err := d.read(ctx, path, full)
		d.mu.Lock()
		if d.flights[key] == f {
			delete(d.flights, key)
		}
		if err == nil && time.Since(info.ModTime()) >= racy {
			d.known[identity(info)] = sha
			d.save()
		}
		d.mu.Unlock()
		f.sha, f.err = sha, err
		close(f.done)
	}()
	return f
}

func (d *Digester) read(ctx context.Context, path, full string) (string, fs.FileInfo, error) {
	file, err := os.Open(full)
	if err != nil {
		return "", nil, unreadable("file", path, err, "make it readable for you")
	}
	defer file.Close()
	before, err := file.Stat()
	if err != nil {
		return "", nil, unreadable("file", path, err, "")
	}
	h := sha256.New()
	buf := make([]byte, chunk)
	var done, told int64
	for {
		if ctx.Err() != nil {
			return "", nil, context.Cause(ctx)
		}
		n, err := file.Read(buf)
		h.Write(buf[:n])
		done += int64(n)
		if d.OnProgress != nil && before.Size() > d.every && (done-told >= d.every || err == io.EOF) {
			told = done
			d.OnProgress(path, done, before.Size())
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return "", nil, unreadable("file", path, err, "check the disk")
		}
	}
	after, err := file.Stat()
	if err != nil {
		return "", nil, unreadable("file", path, err, "")
	}
	if identity(after) != identity(before) || done != after.Size() {
		return "", nil, &diag.Error{Kind: diag.Machine, Op: "file", Msg: fmt.Sprintf("%q changed while it was read", path), Fix: "wait until it is written, then run again"}
	}
	return hex.EncodeToString(h.Sum(nil)), after, nil
}

// cacheForm is the cache file. Another version of flow may write another one: what is not understood is
// not used.
type cacheForm struct {
	Version int               `json:"version"`
	SHA256  map[string]string `json:"sha256"` // "device:inode:size:mtime_ns" to digest
}

const cacheVersion = 1

// load reads the cache file once. d.mu is held.
func (d *Digester) load() {
	if d.loaded || d.cacheFile == "" {
		return
	}
	d.loaded = true
	b, err := readState(d.cacheFile)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		d.cacheErr = err
		return
	}
	for k, v := range parseCache(b) {
		d.known[k] = v
	}
}

// parseCache gives what a cache file holds, nothing where it is damaged or of another version.
func parseCache(b []byte) map[string]string {
	var c cacheForm
	if json.Unmarshal(b, &c) != nil || c.Version != cacheVersion {
		return nil
	}
	for k, v := range c.SHA256 {
		if sum, err := hex.DecodeString(v); err != nil || len(sum) != sha256.Size || strings.ToLower(v) != v {
			delete(c.SHA256, k)
		}
	}
	return c.SHA256
}

// save merges what is known into the cache file and replaces it in one step. d.mu is held.
func (d *Digester) save() {
	if d.cacheFile != "" {
		d.cacheErr = d.write()
	}
}

func (d *Digester) write() error {
	lock, err := openState(d.cacheFile+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close() // and with it the lock
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", d.cacheFile, err)
	}
	b, err := readState(d.cacheFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for k, v := range parseCache(b) { // what another process has found since
		d.known[k] = v
	}
	b, err = json.MarshalIndent(cacheForm{cacheVersion, d.known}, "", " ")
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(d.cacheFile), filepath.Base(d.cacheFile)+".*")
	if err != nil {
		return err
	}
	_, err = tmp.Write(append(b, '\n'))
	err = errors.Join(err, tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), d.cacheFile)
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
	}
	return err
}
