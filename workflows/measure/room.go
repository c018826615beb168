package measure

// What an engine wrote is evidence. Where its folder had no room left, or is gone, the log is not whole, and
// a line that is not in it proves nothing: that is the machine's trouble, and never a lever's.

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"flow/builtins/engine"
	"flow/starlark/diag"
)

// leastRoom is what must still be free where an arm's files are, in bytes: less than one more block of log.
const leastRoom = 64 << 10

// whole says why the files of an arm cannot be relied on; nil when they can. free gives the bytes left in a
// folder.
func whole(out string, free func(dir string) (uint64, error)) error {
	trouble := func(msg string, err error) error {
		return &diag.Error{Kind: diag.Machine, Op: "arm files", Msg: msg, Err: err,
			Fix: "make room, set TMPDIR to a folder with room, or keep the files elsewhere with --keep FOLDER; then flow resume"}
	}
	if _, err := os.Stat(filepath.Join(out, engine.LogFile)); errors.Is(err, fs.ErrNotExist) {
		return trouble("the engine's log is gone from "+out, nil)
	}
	left, err := free(out)
	if err != nil {
		return trouble("cannot tell what room is left in "+out, err)
	}
	if left < leastRoom {
		return trouble("no room was left in "+filepath.Dir(out)+": what the engine wrote there is not whole", nil)
	}
	return nil
}

// freeBytes is what an ordinary user may still write below dir.
func freeBytes(dir string) (uint64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return uint64(st.Bavail) * uint64(st.Bsize), nil
}
