package hardware

// Cells: sources made of small files with one number each, as /sys is. Each file is a sensor, open for as
// long as the source is.

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"flow/workflows/record"
)

// cell is one file that feeds one sensor.
type cell struct {
	f      *file
	sensor string
	get    func([]byte) (float64, bool)
	energy bool // a counter of joules, read at marks as well
}

// cells is a source of them.
type cells struct {
	name    string
	list    []cell
	sensors []record.Sensor
	pace    time.Duration
	alone   bool    // a lane of its own
	extra   []*file // open beside those of list
}

func (c *cells) Name() string             { return c.name }
func (c *cells) Sensors() []record.Sensor { return c.sensors }
func (c *cells) every() time.Duration     { return c.pace }
func (c *cells) slow() bool               { return c.alone && len(c.list) > 0 }
func (c *cells) Close() error {
	var err error
	for _, x := range c.list {
		err = errors.Join(err, x.f.close())
	}
	for _, f := range c.extra {
		err = errors.Join(err, f.close())
	}
	c.list, c.extra = nil, nil
	return err
}

func (c *cells) Sample(_ int64, emit func(string, float64)) error {
	return c.read(emit, false)
}

// mark reads the counters of energy alone.
func (c *cells) mark(emit func(string, float64)) error { return c.read(emit, true) }

func (c *cells) read(emit func(string, float64), energyOnly bool) error {
	var failed error
	for i := range c.list {
		x := &c.list[i]
		if energyOnly && !x.energy {
			continue
		}
		b, err := x.f.read()
		if err != nil {
			failed = err
			continue
		}
		if v, ok := x.get(b); ok {
			emit(x.sensor, v)
		}
	}
	return failed
}

// add opens the file of a sensor and reads it once: a chip may have a file that it cannot answer.
func (c *cells) add(o Options, path string, s record.Sensor, get func([]byte) (float64, bool)) bool {
	if s.Source == "" {
		s.Source = path
	}
	f, err := openFile(o, path)
	if err == nil {
		var b []byte
		if b, err = f.read(); err == nil {
			if _, ok := get(b); !ok {
				err = fmt.Errorf("%s says %q, want a number", path, shorten(b))
			}
		}
		if err != nil {
			_ = f.close()
		}
	}
	if err != nil {
		s.Why, s.Fix = cellReason(path, err)
	} else {
		s.Available = true
		c.list = append(c.list, cell{f, s.Name, get, isEnergyCounter(s)})
	}
	c.sensors = append(c.sensors, s)
	return s.Available
}

// none lists sensors that are not here, all for one reason.
func (c *cells) none(why, fix string, list ...record.Sensor) {
	for _, s := range list {
		s.Why, s.Fix, s.Available = why, fix, false
		c.sensors = append(c.sensors, s)
	}
}

func cellReason(path string, err error) (why, fix string) {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "the driver gives no " + filepath.Base(path), "use a device or a driver that has it"
	case errors.Is(err, syscall.ENODATA), errors.Is(err, syscall.EIO), errors.Is(err, syscall.EINVAL), errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.ENXIO):
		return "the device does not answer (" + err.Error() + ")", "it may be asleep: look again under load"
	}
	return reason(path, err)
}

// scaled reads a whole number, perhaps negative, and multiplies it.
func scaled(by float64) func([]byte) (float64, bool) {
	return func(b []byte) (float64, bool) {
		v, ok := intOf(firstWord(b))
		return float64(v) * by, ok
	}
}

func firstWord(b []byte) []byte {
	line, _ := cutLine(b)
	f, _ := cutField(line)
	return f
}

// intOf is uintOf with a sign.
func intOf(b []byte) (int64, bool) {
	neg := len(b) > 0 && b[0] == '-'
	if neg {
		b = b[1:]
	}
	v, ok := uintOf(b)
	if !ok || v > 1<<62 {
		return 0, false
	}
	if neg {
		return -int64(v), true
	}
	return int64(v), true
}

func shorten(b []byte) string {
	b = bytes.TrimSpace(b)
	if len(b) > 40 {
		b = b[:40]
	}
	return string(b)
}

// textOf is the content of a small file, "" where there is none.
func textOf(o Options, path string) string {
	s, _ := readText(o, path)
	return s
}

func readText(o Options, path string) (string, error) {
	f, err := openFile(o, path)
	if err != nil {
		return "", err
	}
	defer f.close()
	b, err := f.read()
	return string(bytes.TrimSpace(b)), err
}

// numbered lists dir/PREFIX<n> by number.
func numbered(dir, prefix string) []string {
	names, err := namesIn(dir)
	if err != nil {
		return nil
	}
	type at struct {
		n    int
		path string
	}
	var out []at
	for _, name := range names {
		rest, ok := strings.CutPrefix(name, prefix)
		if !ok {
			continue
		}
		if n, err := strconv.Atoi(rest); err == nil && n >= 0 {
			out = append(out, at{n, filepath.Join(dir, name)})
		}
	}
	slices.SortFunc(out, func(a, b at) int { return a.n - b.n })
	paths := make([]string, len(out))
	for i, x := range out {
		paths[i] = x.path
	}
	return paths
}

// slug makes a sensor name's part of a chip's label: "Package id 0" is "package_id_0".
func slug(s string) string {
	var b strings.Builder
	gap := false
	for _, r := range strings.ToLower(s) {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' {
			if gap && b.Len() > 0 {
				b.WriteByte('_')
			}
			gap = false
			b.WriteRune(r)
			continue
		}
		gap = true
	}
	return b.String()
}

// unique gives each name once: the second "coretemp" is "coretemp_1".
type unique map[string]int

func (u unique) name(s string) string {
	n := u[s]
	u[s]++
	if n == 0 {
		return s
	}
	return u.name(s + "_" + strconv.Itoa(n))
}

func itoa(n int) string { return strconv.Itoa(n) }

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// dirsIn lists what is in a folder, by name.
func dirsIn(dir string) []string {
	names, err := namesIn(dir)
	if err != nil {
		return nil
	}
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = filepath.Join(dir, n)
	}
	return out
}
