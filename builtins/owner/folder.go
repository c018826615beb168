package owner

// Temporary folders. Each says whose it is, in a file that its flow keeps locked: a folder whose file can be
// locked was left, however its flow went. A folder without the file is not touched.

import (
	"encoding/json"
	"errors"
	"fmt"
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
	f, err := writeFile(name+".new", o.self)
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
// gone, unless a process that they started still runs. It gives those that it removed.
func RemoveFolders(base string) (removed []string, err error) {
	if base == "" {
		base = os.TempDir()
	}
	entries, err := os.ReadDir(base)
	if err != nil {
		return nil, nil // there is no such folder, or none that we may look at
	}
	for _, e := range entries {
		path := filepath.Join(base, e.Name())
		if !strings.HasPrefix(e.Name(), folderPrefix) || !left(path) {
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
func left(path string) bool {
	st, err := os.Lstat(path)
	if err != nil || !st.IsDir() {
		return false
	}
	if sys, ok := st.Sys().(*syscall.Stat_t); !ok || int(sys.Uid) != os.Getuid() {
		return false
	}
	name := filepath.Join(path, folderFile)
	if st, err := os.Lstat(name); err != nil || !st.Mode().IsRegular() {
		return false
	}
	b, err := os.ReadFile(name)
	if err != nil || locked(name) {
		return false
	}
	var r Record
	return json.Unmarshal(b, &r) == nil && r.ID != "" && r.ID == r.run() && r.Host == host() && len(marked(r.ID)) == 0
}
