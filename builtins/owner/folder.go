package owner

// Temporary folders. Each says whose it is and which folder it is, in a file that its flow keeps locked: a
// folder whose file can be locked was left, however its flow went. A folder without the file is not touched,
// and neither is one that somebody copied or gave another name.

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	folderPrefix = "flow-"
	folderFile   = ".flow-owner"
)

// folderRecord says of which folder it is: what copies the folder copies the file with it.
type folderRecord struct {
	Record
	Path  string `json:"path"`
	Dev   uint64 `json:"dev"`
	Inode uint64 `json:"inode"`
}

// Folder is a temporary folder of this run.
type Folder struct {
	Path string
	file *os.File
}

// Folder makes one below base, "" for the system's.
func (o *Owner) Folder(base string) (*Folder, error) {
	path, err := os.MkdirTemp(base, folderPrefix)
	if err != nil {
		return nil, err
	}
	name := filepath.Join(path, folderFile)
	var f *os.File
	r := folderRecord{Record: o.self}
	if r.Path, r.Dev, r.Inode, err = whichFolder(path); err == nil {
		f, err = writeFile(name+".new", r)
	}
	if err == nil {
		err = errors.Join(unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB), os.Rename(name+".new", name))
	}
	if err != nil {
		_ = f.Close() // nil is refused and harmless
		return nil, errors.Join(err, os.RemoveAll(path))
	}
	return &Folder{Path: path, file: f}, nil
}

// Remove takes the folder away. A nil Folder is none.
func (f *Folder) Remove() error {
	if f == nil || f.file == nil {
		return nil
	}
	err := errors.Join(os.RemoveAll(f.Path), f.file.Close())
	f.file = nil
	return err
}

// RemoveFolders removes the temporary folders below base ("" for the system's) of flows of this user that are
// gone, unless a process that they started still runs, or dir still has a record of them. It gives those that
// it removed.
func RemoveFolders(dir, base string) (removed []string, err error) {
	if base == "" {
		base = os.TempDir()
	}
	entries, err := os.ReadDir(base)
	if err != nil {
		return nil, nil // there is no such folder, or none that we may look at
	}
	for _, e := range entries {
		path := filepath.Join(base, e.Name())
		if !strings.HasPrefix(e.Name(), folderPrefix) || !left(dir, path) {
			continue
		}
		if e := os.RemoveAll(path); e != nil {
			err = errors.Join(err, fmt.Errorf("folder of a flow that is gone: %w", e))
			continue
		}
		removed = append(removed, path)
	}
	return removed, err
}

// left: path is a folder of ours whose flow is gone, with all that it started.
func left(dir, path string) bool {
	st, err := os.Lstat(path)
	if err != nil || !st.IsDir() {
		return false
	}
	if sys, ok := st.Sys().(*syscall.Stat_t); !ok || int(sys.Uid) != os.Getuid() {
		return false
	}
	name := filepath.Join(path, folderFile)
	b, err := read(name)
	if err != nil || locked(name) {
		return false
	}
	var r folderRecord
	if json.Unmarshal(b, &r) != nil || r.ID == "" || r.ID != r.run() {
		return false
	}
	at, dev, inode, err := whichFolder(path)
	if err != nil || r.Path != at || r.Inode != inode || r.Dev != dev && r.Boot == boot() { // a disk's number is that of one start
		return false
	}
	if _, err := os.Lstat(filepath.Join(dir, r.ID+".json")); !errors.Is(err, fs.ErrNotExist) {
		return false // of a flow that runs, or that left something
	}
	if r.here() {
		return !r.Flow.Alive() && len(marked(r.ID)) == 0
	}
	return r.Boot != boot() && r.Host == host() // nothing outlives a restart; of another pid namespace we see too little
}

// whichFolder is a folder's identity.
func whichFolder(path string) (at string, dev, inode uint64, err error) {
	if at, err = filepath.Abs(path); err != nil {
		return "", 0, 0, err
	}
	if at, err = filepath.EvalSymlinks(at); err != nil {
		return "", 0, 0, err
	}
	var st unix.Stat_t
	if err := unix.Lstat(at, &st); err != nil {
		return "", 0, 0, err
	}
	return at, uint64(st.Dev), st.Ino, nil // 32 bits on some systems
}
