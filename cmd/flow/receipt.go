package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"flow/builtins/machine"
	"flow/starlark/diag"
)

func newReceiptCommand(a *app) *cobra.Command {
	var asJSON, again bool
	cmd := &cobra.Command{
		Use:   "receipt MODEL…",
		Short: "Verify and fingerprint large model files once",
		Long: `Read model files once, past the page cache, and keep their SHA-256 where sessions look for it: no session
then reads them again while device, inode, size and time of change stay the same. A reading that was
ended, even by SIGKILL, goes on where it was. A folder is read file by file.

Named are the physical disk that each file is on (replicas are to be on distinct ones) and every file whose
content is not what an earlier receipt says. --again reads what is known too, to find what rots on the disk.`,
		Example: "  flow receipt models/glm-4.6.gguf\n  flow receipt --again /mnt/a/model.gguf /mnt/b/model.gguf",
		Args:    workflowArgs(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			state, err := machine.StateDir()
			if err != nil {
				return err
			}
			d := machine.NewDigester("", filepath.Join(state, "digests.json"))
			o := machine.ReceiptOptions{State: state, Again: again, Progress: progressOf(a)}
			files, err := modelFiles(args)
			if err != nil {
				return err
			}
			changed, disks := 0, map[string][]string{}
			for _, f := range files {
				r, err := d.Verify(cmd.Context(), f, o)
				if err != nil {
					if cmd.Context().Err() != nil {
						return &exitError{diag.Stopped.ExitCode(), "stopped; run it again to go on where it was"}
					}
					return err
				}
				if r.Changed != "" {
					changed++
				}
				if r.Disk != "" {
					disks[r.Disk] = append(disks[r.Disk], f)
				}
				if asJSON {
					if err := json.NewEncoder(a.stdout).Encode(r); err != nil {
						return err
					}
					continue
				}
				fmt.Fprintln(a.stdout, receiptLine(r))
			}
			if !asJSON && len(files) > 1 {
				fmt.Fprintf(a.stdout, "%d files on %d physical disks\n", len(files), len(disks))
			}
			if changed > 0 {
				return &diag.Error{Kind: diag.Machine, Op: "receipt", Msg: fmt.Sprintf("%d of %d files changed since they were verified", changed, len(files)),
					Fix: "nothing, when you replaced them; otherwise fetch them again. The new content is what receipts name now"}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object a file")
	cmd.Flags().BoolVar(&again, "again", false, "read what is known too")
	return cmd
}

// modelFiles takes folders apart.
func modelFiles(args []string) ([]string, error) {
	var out []string
	for _, arg := range args {
		err := filepath.WalkDir(arg, func(p string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if info, statErr := os.Stat(p); statErr == nil && info.IsDir() {
				return nil // through links too: the usual hub's folders are made of them
			}
			out = append(out, p)
			return nil
		})
		if err != nil {
			return nil, usage("receipt", err.Error(), "name model files or folders of them")
		}
	}
	return out, nil
}

// receiptLine is a receipt for people: digest and path as sha256sum prints them, then the rest.
func receiptLine(r machine.Receipt) string {
	s := r.SHA256 + "  " + r.Path
	how := []string{fmt.Sprintf("%d bytes", r.Bytes)}
	if r.Disk != "" {
		how = append(how, "on disk "+r.Disk)
	}
	switch {
	case r.Known:
		how = append(how, "verified "+time.Unix(0, r.WallNS).UTC().Format("2006-01-02 15:04:05")+" UTC")
	case r.Resumed > 0:
		how = append(how, fmt.Sprintf("went on from byte %d", r.Resumed))
	}
	s += "\n  " + strings.Join(how, ", ")
	for _, w := range []string{r.Changed, r.Warning} {
		if w != "" {
			s += "\n  " + w
		}
	}
	return s
}

// progressOf tells how far a reading is, once a second and at its end.
func progressOf(a *app) func(path string, done, total int64) {
	const mib = 1 << 20
	began, last, from := machine.Monotonic(), machine.Monotonic(), int64(-1)
	return func(path string, done, total int64) {
		now := machine.Monotonic()
		if from < 0 || done < from {
			from, began = done, now
		}
		if now-last < int64(time.Second) {
			return
		}
		last = now
		line := fmt.Sprintf("%s: %d of %d MiB", path, done/mib, total/mib)
		if s := float64(now-began) / 1e9; s > 0 && done > from {
			rate := float64(done-from) / s
			line += fmt.Sprintf(", %.0f MiB/s, %s left", rate/mib, time.Duration(float64(total-done)/rate*1e9).Round(time.Second))
		}
		fmt.Fprintln(a.stderr, line)
	}
}
