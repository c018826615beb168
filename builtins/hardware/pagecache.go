package hardware

// How much of a model file is in the page cache, and what its disk does. The file is mapped and never
// touched: mincore tells without reading. Two traps: since Linux 5.2 a process that may not write the file
// is told that every page is there, and a hundred gigabytes are 25 million pages. So it is asked only where
// the answer is true, and no more often than costs a thousandth of a core.

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"flow/workflows/record"
)

type pagecache struct {
	files   []cachedFile
	sensors []record.Sensor
	next    int64
}

type cachedFile struct {
	sensor string
	m      *residence
	disk   *file // /sys/block/DEVICE/stat
	read   string
	busy   string
}

// pageCachePace is the least time between two looks.
const pageCachePace = 10 * time.Second

// OpenFiles watches model files: pagecache.FILE.resident_pct, and of the disk that holds it what was read
// and how long it was busy. FILE is the base name with everything but letters, digits and - as _.
func OpenFiles(o Options, paths []string) Source {
	o = o.withDefaults()
	p := &pagecache{}
	names := unique{}
	for _, path := range paths {
		p.open(o, path, "pagecache."+names.name(slug(filepath.Base(path)))+".")
	}
	return &guarded{Source: p}
}

func (p *pagecache) open(o Options, path, at string) {
	f := cachedFile{sensor: at + "resident_pct", read: at + "disk_read_mib", busy: at + "disk_busy_ms"}
	s := record.Sensor{Name: f.sensor, Unit: "%", Source: "mincore of " + filepath.Base(path), PeriodMS: int(pageCachePace / time.Millisecond)}
	m, err := openResidence(path)
	if err == nil {
		f.m, s.Available = m, true
	} else {
		s.Why = err.Error()
		s.Fix = "let the user who runs flow own " + path + ", or be allowed to write it"
		if errors.Is(err, os.ErrNotExist) {
			s.Why, s.Fix = path+" is not there", "give the path of the file"
		} else if errors.Is(err, errNoMincore) {
			s.Fix = "run on Linux"
		}
	}
	p.sensors = append(p.sensors, s)
	disk, err := DiskOf(o, path)
	d := record.Sensor{Name: f.read, Unit: "MiB", Counter: true, Source: "the disk of " + filepath.Base(path)}
	b := record.Sensor{Name: f.busy, Unit: "ms", Counter: true, Source: d.Source}
	if err == nil {
		stat := filepath.Join(o.Sys, "block", disk, "stat")
		d.Source, b.Source = d.Source+", "+disk, b.Source+", "+disk
		if f.disk, err = openFile(o, stat); err == nil {
			d.Available, b.Available = true, true
		}
	}
	if err != nil {
		d.Why, d.Fix = err.Error(), "keep the model on a local disk that "+filepath.Join(o.Sys, "block")+" shows"
		b.Why, b.Fix = d.Why, d.Fix
	}
	p.sensors = append(p.sensors, d, b)
	p.files = append(p.files, f)
}

func (p *pagecache) Name() string             { return "pagecache" }
func (p *pagecache) Sensors() []record.Sensor { return p.sensors }
func (p *pagecache) slow() bool               { return true }
func (p *pagecache) reset()                   { p.next = 0 }
func (p *pagecache) Close() error {
	var err error
	for _, f := range p.files {
		err = errors.Join(err, f.m.close(), f.disk.close())
	}
	p.files = nil
	return err
}

func (p *pagecache) Sample(now int64, emit func(string, float64)) error {
	var failed error
	for i := range p.files {
		f := &p.files[i]
		if f.disk == nil {
			continue
		}
		b, err := f.disk.read()
		if err != nil {
			failed = err
			continue
		}
		if mib, busy, ok := parseBlockStat(b); ok {
			emit(f.read, mib)
			emit(f.busy, busy)
		}
	}
	if now < p.next {
		return failed
	}
	began := time.Now()
	for i := range p.files {
		f := &p.files[i]
		if f.m == nil {
			continue
		}
		part, err := f.m.resident()
		if err != nil {
			failed = err
			continue
		}
		emit(f.sensor, 100*part)
	}
	p.next = now + int64(max(pageCachePace, 1000*time.Since(began)))
	return failed
}

// parseBlockStat reads /sys/block/DEVICE/stat, the numbers of a line of /proc/diskstats:
//
//	37551 7469 2276618 11556 11893 110080 6318256 22284 0 7548 34493 …
func parseBlockStat(b []byte) (readMiB, busyMS float64, ok bool) {
	line, _ := cutLine(b)
	f, _ := cutField(skipFields(line, 2))
	sectors, ok1 := uintOf(f)
	f, _ = cutField(skipFields(line, 9))
	busy, ok2 := uintOf(f)
	return mibOfSectors(sectors), float64(busy), ok1 && ok2
}

// DiskOf is the whole device that holds a file: "nvme0n1". A file on several devices, or on none of this
// machine, has no such device, and the error says so.
func DiskOf(o Options, path string) (string, error) {
	o = o.withDefaults()
	major, minor, err := deviceOf(path)
	if err != nil {
		return "", err
	}
	return o.wholeDevice(fmt.Sprintf("%d:%d", major, minor), path)
}

// wholeDevice turns "259:2" into the device that has the hardware.
func (o Options) wholeDevice(number, path string) (string, error) {
	if strings.HasPrefix(number, "0:") { // btrfs, overlay, zfs, network and memory file systems
		source := mountSource(textOf(o, filepath.Join(o.Proc, "self/mountinfo")), number)
		base := filepath.Base(source)
		if !strings.HasPrefix(source, "/dev/") {
			return "", fmt.Errorf("%s is on %s, which is no disk of this machine", path, cmpOr(source, "a file system without a device"))
		}
		return o.parentDisk(base, path)
	}
	for _, d := range dirsIn(filepath.Join(o.Sys, "class/block")) {
		if textOf(o, filepath.Join(d, "dev")) == number {
			return o.parentDisk(filepath.Base(d), path)
		}
	}
	return "", fmt.Errorf("no block device %s in %s", number, filepath.Join(o.Sys, "class/block"))
}

// parentDisk goes from a partition, or a device-mapper device with one device below it, to the disk.
func (o Options) parentDisk(name, path string) (string, error) {
	for range 8 {
		if slaves := dirsIn(filepath.Join(o.Sys, "class/block", name, "slaves")); len(slaves) == 1 {
			name = filepath.Base(slaves[0])
			continue
		} else if len(slaves) > 1 {
			return "", fmt.Errorf("%s is on %s, which is made of %d devices", path, name, len(slaves))
		}
		if !exists(filepath.Join(o.Sys, "class/block", name, "partition")) {
			if exists(filepath.Join(o.Sys, "block", name)) {
				return name, nil
			}
			return "", fmt.Errorf("%s is on %s, which %s does not show", path, name, filepath.Join(o.Sys, "block"))
		}
		parent := ""
		for _, d := range dirsIn(filepath.Join(o.Sys, "block")) {
			if exists(filepath.Join(d, name)) {
				parent = filepath.Base(d)
			}
		}
		if parent == "" {
			return "", fmt.Errorf("partition %s has no disk in %s", name, filepath.Join(o.Sys, "block"))
		}
		name = parent
	}
	return "", fmt.Errorf("%s: too many layers of devices", path)
}

// mountSource is what is mounted with a device number: "/dev/nvme0n1p2", "server:/export".
func mountSource(table, number string) string {
	for line := range strings.Lines(table) {
		left, right, ok := strings.Cut(line, " - ")
		f, g := strings.Fields(left), strings.Fields(right)
		if ok && len(f) > 2 && len(g) > 1 && f[2] == number {
			return g[1]
		}
	}
	return ""
}

func cmpOr(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func sortedNames[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

var errNoMincore = errors.New("flow asks for resident pages on Linux only")
