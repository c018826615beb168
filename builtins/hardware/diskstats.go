package hardware

// /proc/diskstats, for whole devices: those that /sys/block gives a device behind them. Loop, RAM and
// device-mapper devices are views of others, partitions are parts: their bytes would be counted twice.

import (
	"os"
	"path/filepath"
	"strings"

	"flow/workflows/record"
)

type diskstats struct {
	f       *file
	disks   []disk
	sensors []record.Sensor
}

// disk is a device with the names of its sensors made once.
type disk struct {
	name                                       string
	reads, readMiB, writes, writtenMiB, busyMS string
}

// diskLine is one line of /proc/diskstats. All but the name are counters since boot.
type diskLine struct {
	name                                               []byte
	reads, sectorsRead, writes, sectorsWritten, busyMS uint64
}

// mibOfSectors: a sector is 512 bytes here, whatever the device's own block is.
func mibOfSectors(n uint64) float64 { return float64(n) / 2048 }

func openDiskstats(o Options) Source {
	d := &diskstats{}
	path := filepath.Join(o.Proc, "diskstats")
	block := filepath.Join(o.Sys, "block")
	var why, fix string
	names, err := wholeDevices(o.Sys)
	switch {
	case err != nil:
		why, fix = reason(block, err)
	case len(names) == 0:
		why, fix = "no block device with hardware behind it in "+block, "run where the disks are visible"
	default:
		if d.f, err = openFile(o, path); err != nil {
			why, fix = reason(path, err)
		}
	}
	if len(names) == 0 {
		names = []string{"*"} // stands for whichever there may be
	}
	for _, n := range names {
		x := disk{}.named(n)
		d.disks = append(d.disks, x)
		d.sensors = append(d.sensors, diskSensors(x, path, why == "", why, fix)...)
	}
	return d
}

func (disk) named(n string) disk {
	p := "disk." + n + "."
	return disk{name: n, reads: p + "reads", readMiB: p + "read_mib", writes: p + "writes", writtenMiB: p + "written_mib", busyMS: p + "busy_ms"}
}

func diskSensors(x disk, source string, available bool, why, fix string) []record.Sensor {
	var out []record.Sensor
	for _, s := range []record.Sensor{
		{Name: x.reads, Unit: "reads"}, {Name: x.readMiB, Unit: "MiB"}, {Name: x.writes, Unit: "writes"},
		{Name: x.writtenMiB, Unit: "MiB"}, {Name: x.busyMS, Unit: "ms"},
	} {
		s.Source, s.Counter, s.Available, s.Why, s.Fix = source, true, available, why, fix
		out = append(out, s)
	}
	return out
}

// wholeDevices are the devices with hardware behind them, in the order of their names.
func wholeDevices(sys string) ([]string, error) {
	names, err := namesIn(filepath.Join(sys, "block"))
	if err != nil {
		return nil, err
	}
	var out []string
	for _, n := range names {
		if strings.HasPrefix(n, "sr") || strings.HasPrefix(n, "fd") { // drives for removable media
			continue
		}
		if _, err := os.Stat(filepath.Join(sys, "block", n, "device")); err == nil {
			out = append(out, n)
		}
	}
	return out, nil
}

func (d *diskstats) Name() string             { return "disk" }
func (d *diskstats) Sensors() []record.Sensor { return d.sensors }
func (d *diskstats) Close() error {
	f := d.f
	d.f = nil
	return f.close()
}

func (d *diskstats) Sample(_ int64, emit func(string, float64)) error {
	if d.f == nil {
		return nil
	}
	b, err := d.f.read()
	if err != nil {
		return err
	}
	for len(b) > 0 {
		var line []byte
		line, b = cutLine(b)
		var x diskLine
		if !parseDiskLine(line, &x) {
			continue
		}
		for i := range d.disks {
			if w := &d.disks[i]; w.name == string(x.name) {
				emit(w.reads, float64(x.reads))
				emit(w.readMiB, mibOfSectors(x.sectorsRead))
				emit(w.writes, float64(x.writes))
				emit(w.writtenMiB, mibOfSectors(x.sectorsWritten))
				emit(w.busyMS, float64(x.busyMS))
				break
			}
		}
	}
	return nil
}

// parseDiskLine reads (kernels append fields: 14, 18, 20):
//
//	254       0 vda 37551 7469 2276618 11556 11893 110080 6318256 22284 0 7548 34493 5439 38 750648 646 194 6
//	            name reads merged sectors ms  writes merged sectors ms   now busy_ms …
func parseDiskLine(line []byte, d *diskLine) bool {
	line = skipFields(line, 2)
	d.name, line = cutField(line)
	if d.name == nil {
		return false
	}
	for i := range 10 {
		var f []byte
		f, line = cutField(line)
		v, ok := uintOf(f)
		if !ok {
			return false
		}
		switch i {
		case 0:
			d.reads = v
		case 2:
			d.sectorsRead = v
		case 4:
			d.writes = v
		case 6:
			d.sectorsWritten = v
		case 9:
			d.busyMS = v
		}
	}
	return true
}
