package machine

// Receipts: a model of hundreds of gigabytes is verified once, outside any session. It is read past the page
// cache, so that what the next arm finds there is not our doing, and a reading that was ended goes on where
// it was: the state of the hash is kept beside the place. The digest lands in the cache that sessions use.

import (
	"context"
	"crypto/sha256"
	"encoding"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"flow/starlark/diag"
)

// Receipt is what is known of one file.
type Receipt struct {
	Path    string `json:"path"`
	SHA256  string `json:"sha256"`
	Bytes   int64  `json:"bytes"`
	Disk    string `json:"disk,omitempty"` // the physical disk: nvme0n1; "" where the system does not say
	WallNS  int64  `json:"wall_ns"`        // when it was read
	Known   bool   `json:"known"`          // read before and the same since: not read now
	Resumed int64  `json:"resumed_bytes"`  // read by an earlier call that was ended
	Direct  bool   `json:"direct"`         // read past the page cache
	Changed string `json:"changed,omitempty"`
	Warning string `json:"warning,omitempty"`
}

// receiptForm is a receipt's file: a finished one has SHA256, one under way the state of its hash.
type receiptForm struct {
	Version  int    `json:"version"`
	Path     string `json:"path"`
	Identity string `json:"identity"` // device:inode:size:mtime_ns
	SHA256   string `json:"sha256,omitempty"`
	WallNS   int64  `json:"wall_ns"`
	Offset   int64  `json:"offset,omitempty"`
	State    []byte `json:"state,omitempty"`  // of the hash at Offset
	Before   string `json:"before,omitempty"` // the digest of the receipt that this one replaces
	Was      string `json:"was,omitempty"`    // and its identity
}

// ReceiptOptions say how files are verified.
type ReceiptOptions struct {
	State    string // flow's state folder
	Sys      string // "/sys" when empty
	Again    bool   // read even what is known, to find what rots on the disk
	Progress func(path string, done, total int64)

	every int64  // bytes between saves; 256 MiB
	hook  func() // tests: after each save
}

const (
	receiptChunk = 8 << 20
	receiptAlign = 4096
)

// Verify reads a file, or goes on reading it, and keeps its digest. The file's path may be relative to the
// working folder.
func (d *Digester) Verify(ctx context.Context, path string, o ReceiptOptions) (Receipt, error) {
	if o.every <= 0 {
		o.every = 256 << 20
	}
	if o.Sys == "" {
		o.Sys = "/sys"
	}
	if o.hook == nil {
		o.hook = func() {}
	}
	full, err := filepath.Abs(path)
	if err == nil {
		full, err = filepath.EvalSymlinks(full)
	}
	var info fs.FileInfo
	if err == nil {
		info, err = os.Stat(full)
	}
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("not a regular file")
	}
	if err != nil {
		return Receipt{}, unreadable("receipt", path, err, "name a model file that can be read")
	}
	out := Receipt{Path: path, Bytes: info.Size(), Disk: DiskOf(o.Sys, info), WallNS: Wall()}
	dir := filepath.Join(o.State, "receipts")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return out, &diag.Error{Kind: diag.Machine, Op: "receipt", Err: err, Fix: "set XDG_STATE_HOME to a folder that can be written"}
	}
	sum := sha256.Sum256([]byte(full))
	file := filepath.Join(dir, hex.EncodeToString(sum[:16])+".json")
	lock, err := openState(file+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return out, &diag.Error{Kind: diag.Machine, Op: "receipt", Err: err, Fix: "set XDG_STATE_HOME to a folder that can be written"}
	}
	defer lock.Close()
	if err := flock(lock, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return out, &diag.Error{Kind: diag.Machine, Op: "receipt", Msg: fmt.Sprintf("another flow receipt reads %q", path), Fix: "wait until it ends"}
	}
	old := parseReceipt(file, full)
	now := receiptForm{Version: 1, Path: full, Identity: identity(info)}
	if old.SHA256 != "" && old.Identity == now.Identity && !o.Again {
		out.SHA256, out.WallNS, out.Known = old.SHA256, old.WallNS, true
		d.keep(info, old.SHA256)
		return out, nil
	}
	h := sha256.New()
	if old.SHA256 != "" {
		now.Before, now.Was = old.SHA256, old.Identity
	} else {
		now.Before, now.Was = old.Before, old.Was
	}
	switch {
	case old.Offset == 0:
	case old.Identity != now.Identity:
		out.Warning = "the file changed since an earlier reading was ended: it is read from its beginning"
	case old.Offset%receiptChunk == 0 && resumeHash(h, old.State) == nil:
		now.Offset, out.Resumed = old.Offset, old.Offset
	}
	if out.Direct, err = readReceipt(ctx, path, full, h, &now, file, info.Size(), o); err != nil {
		return out, err
	}
	after, err := os.Stat(full)
	if err != nil || identity(after) != now.Identity {
		_ = os.Remove(file)
		return out, &diag.Error{Kind: diag.Machine, Op: "receipt", Msg: fmt.Sprintf("%q changed while it was read", path), Err: err, Fix: "wait until it is written, then run again"}
	}
	out.SHA256 = hex.EncodeToString(h.Sum(nil))
	if now.Before != "" && now.Before != out.SHA256 {
		out.Changed = "its content is not what an earlier receipt names: it was " + now.Before
		if now.Was == now.Identity {
			out.Changed += ", with the same size and time, so the disk or a hidden write changed it"
		}
	}
	now.SHA256, now.WallNS, now.Offset, now.State, now.Before, now.Was = out.SHA256, out.WallNS, 0, nil, "", ""
	if time.Since(after.ModTime()) < racy {
		out.Warning = "it was written a moment ago: a session will read it again"
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return out, &diag.Error{Kind: diag.Machine, Op: "receipt", Err: err, Fix: "set XDG_STATE_HOME to a folder that can be written"}
		}
		return out, nil // nothing is kept of a short file that was never verified before
	}
	if err := now.save(file); err != nil {
		return out, &diag.Error{Kind: diag.Machine, Op: "receipt", Err: err, Fix: "make room where flow keeps its state, or set XDG_STATE_HOME"}
	}
	d.keep(after, out.SHA256)
	if err := d.CacheError(); err != nil {
		out.Warning = "the digest could not be kept: " + err.Error()
	}
	return out, nil
}

// keep puts a digest into the cache of sessions.
func (d *Digester) keep(info fs.FileInfo, sha string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.load()
	d.known[identity(info)] = sha
	d.save()
}

// readReceipt hashes what is left of a file and saves how far it is.
func readReceipt(ctx context.Context, path, full string, h hash.Hash, now *receiptForm, file string, size int64, o ReceiptOptions) (direct bool, err error) {
	f, direct, err := openUncached(full)
	if err != nil {
		return false, unreadable("receipt", path, err, "make it readable for you")
	}
	defer func() { _ = f.Close() }()
	buf := aligned(receiptChunk)
	at, saved := now.Offset, now.Offset
	for at < size {
		if ctx.Err() != nil {
			return direct, errors.Join(context.Cause(ctx), now.hold(h, at, file))
		}
		n, err := f.ReadAt(buf, at)
		if direct && n == 0 && (errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP)) { // the file system refuses at the first read
			plain, again := os.Open(full)
			if again != nil {
				return false, again
			}
			_ = f.Close()
			f, direct = plain, false
			continue
		}
		if err != nil && err != io.EOF {
			return direct, errors.Join(unreadable("receipt", path, err, "check the disk"), now.hold(h, at, file))
		}
		if n == 0 {
			break // shorter than it was: found out below
		}
		h.Write(buf[:n])
		if !direct {
			dropRange(f, at, int64(n))
		}
		at += int64(n)
		if at-saved >= o.every && at%receiptChunk == 0 {
			if err := now.hold(h, at, file); err != nil {
				return direct, err
			}
			saved = at
			o.hook()
		}
		if o.Progress != nil {
			o.Progress(path, at, size)
		}
	}
	return direct, nil
}

// aligned is a buffer where reading past the page cache wants it.
func aligned(n int) []byte {
	b := make([]byte, n+receiptAlign)
	skip := receiptAlign - int(uintptr(unsafe.Pointer(&b[0]))%receiptAlign)
	return b[skip : skip+n]
}

// hold saves how far a reading is. Only whole chunks can be gone on from.
func (r *receiptForm) hold(h hash.Hash, at int64, file string) error {
	if at == 0 || at%receiptChunk != 0 {
		return nil
	}
	m, ok := h.(encoding.BinaryMarshaler)
	if !ok {
		return nil
	}
	state, err := m.MarshalBinary()
	if err != nil {
		return err
	}
	r.Offset, r.State, r.WallNS = at, state, Wall()
	return r.save(file)
}

func resumeHash(h hash.Hash, state []byte) error {
	u, ok := h.(encoding.BinaryUnmarshaler)
	if !ok {
		return errors.New("this hash cannot be gone on with")
	}
	return u.UnmarshalBinary(state)
}

// save replaces the receipt's file in one step.
func (r *receiptForm) save(file string) error {
	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+".*")
	if err != nil {
		return err
	}
	_, err = tmp.Write(append(b, '\n'))
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), file)
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
	}
	return err
}

// parseReceipt is what a receipt's file says of a path; nothing where it is damaged or another's.
func parseReceipt(file, path string) receiptForm {
	b, err := readState(file)
	var r receiptForm
	if err != nil || json.Unmarshal(b, &r) != nil || r.Version != 1 || r.Path != path || r.Offset < 0 {
		return receiptForm{}
	}
	return r
}

// DiskOf is the physical disk that a file is on, by the kernel's name: nvme0n1, or sda+sdb for a volume over
// both. "" where the system does not say, as on network and overlay file systems.
func DiskOf(sys string, info fs.FileInfo) string {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	dev := uint64(st.Dev)
	return diskOf(sys, fmt.Sprintf("%d:%d", unix.Major(dev), unix.Minor(dev)))
}

func diskOf(sys, number string) string {
	dir, err := filepath.EvalSymlinks(filepath.Join(sys, "dev/block", number))
	if err != nil {
		return ""
	}
	if _, err := os.Stat(filepath.Join(dir, "partition")); err == nil {
		dir = filepath.Dir(dir)
	}
	slaves, _ := os.ReadDir(filepath.Join(dir, "slaves")) // not there: it is a disk itself
	var under []string
	for _, s := range slaves {
		name := s.Name()
		if number := line(dir, "slaves", name, "dev"); number != "" {
			if d := diskOf(sys, number); d != "" {
				name = d
			}
		}
		if !slices.Contains(under, name) {
			under = append(under, name)
		}
	}
	if len(under) > 0 {
		slices.Sort(under)
		return strings.Join(under, "+")
	}
	return filepath.Base(dir)
}
