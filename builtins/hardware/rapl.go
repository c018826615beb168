package hardware

// RAPL: the energy that the CPU package counts itself, by way of powercap. The counter of a domain is in
// microjoules and wraps at max_energy_range_uj, every few minutes under load; here it is unrolled, so what
// is emitted only grows. Domains contain each other (psys ⊇ package ⊇ core, uncore) and intel-rapl-mmio
// repeats them: they are never added up. A package is not the wall: fans, board, drives and the losses of
// the power supply are not in it.

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"flow/workflows/record"
)

type rapl struct {
	domains []raplDomain
	sensors []record.Sensor
}

type raplDomain struct {
	f      *file
	sensor string
	wrap   uint64 // max_energy_range_uj; 0 is unknown
	last   uint64
	total  uint64 // µJ since the first reading
	begun  bool
	broken bool // went back without a known range: nothing more until reset
}

func openRAPL(o Options) Source {
	r := &rapl{}
	dir := filepath.Join(o.Sys, "class/powercap")
	wanted := o.RAPL
	names := unique{}
	var found []string
	for _, path := range raplZones(dir, wanted) {
		name := textOf(o, filepath.Join(path, "name"))
		if name == "" {
			name = filepath.Base(path)
		}
		found = append(found, name)
		switch {
		case wanted == "" && strings.HasPrefix(name, "package"):
		case wanted != "" && (wanted == name || wanted == path || wanted == filepath.Base(path)):
		default:
			continue
		}
		r.domain(o, path, names.name("rapl."+slug(name)))
	}
	if len(r.sensors) > 0 {
		return r
	}
	s := record.Sensor{Name: "rapl.package-0.energy_j", Unit: "J", Source: dir, Counter: true, PeriodMS: 1}
	switch {
	case o.OS != "linux":
		s.Why, s.Fix = reason(dir, fs.ErrNotExist)
	case len(found) > 0:
		s.Why = fmt.Sprintf("no powercap domain %q; there is %s", wanted, strings.Join(found, ", "))
		s.Fix = "name one of them"
	default:
		s.Why, s.Fix = "no RAPL domain in "+dir+", as on most virtual machines and on CPUs that have none", "sudo modprobe intel_rapl_common intel_rapl_msr, on the hardware itself"
	}
	r.sensors = []record.Sensor{s}
	return r
}

// raplZones are the domains to look at: the packages and psys, and what they contain when one is named.
func raplZones(dir, wanted string) []string {
	if filepath.IsAbs(wanted) {
		return []string{wanted}
	}
	var out []string
	for _, top := range numbered(dir, "intel-rapl:") {
		out = append(out, top)
		if wanted != "" {
			below := numbered(dir, filepath.Base(top)+":")
			if len(below) == 0 {
				below = numbered(top, filepath.Base(top)+":")
			}
			out = append(out, below...)
		}
	}
	return out
}

func (r *rapl) domain(o Options, path, prefix string) {
	file := filepath.Join(path, "energy_uj")
	s := record.Sensor{Name: prefix + ".energy_j", Unit: "J", Source: file, Counter: true, PeriodMS: 1}
	f, err := openFile(o, file)
	if err == nil {
		if _, err = f.readUint(); err != nil {
			_ = f.close()
		}
	}
	if err != nil {
		s.Why, s.Fix = reason(file, err)
		if errors.Is(err, fs.ErrPermission) {
			s.Why = "no permission to read " + file + ": kernels since 5.10 give it to root only"
			s.Fix = "sudo chmod a+r " + file + ", or have a root-run collector write it to a file and attach that"
		}
	} else {
		d := raplDomain{f: f, sensor: s.Name}
		d.wrap, _ = uintOf([]byte(textOf(o, filepath.Join(path, "max_energy_range_uj"))))
		r.domains = append(r.domains, d)
		s.Available = true
	}
	r.sensors = append(r.sensors, s)
}

func (r *rapl) Name() string             { return "rapl" }
func (r *rapl) Sensors() []record.Sensor { return r.sensors }
func (r *rapl) every() time.Duration     { return paceFast }

// reset gives a domain that broke another try, from zero, so that nobody takes a difference across the
// break. The others go on: what they emit only grows, and a look from outside must not disturb an arm.
func (r *rapl) reset() {
	for i := range r.domains {
		if d := &r.domains[i]; d.broken {
			d.begun, d.broken, d.total = false, false, 0
		}
	}
}

func (r *rapl) Close() error {
	var err error
	for _, d := range r.domains {
		err = errors.Join(err, d.f.close())
	}
	r.domains = nil
	return err
}

func (r *rapl) Sample(_ int64, emit func(string, float64)) error {
	var failed error
	for i := range r.domains {
		d := &r.domains[i]
		v, err := d.f.readUint()
		if err == nil {
			err = d.take(v)
		}
		if err != nil {
			failed = err
			continue
		}
		emit(d.sensor, float64(d.total)/1e6)
	}
	return failed
}

// mark is the same reading: there is nothing else in the source.
func (r *rapl) mark(emit func(string, float64)) error { return r.Sample(0, emit) }

// take adds what the counter grew by since the reading before.
func (d *raplDomain) take(v uint64) error {
	switch {
	case d.broken:
		return errors.New(d.f.path + ": the counter went back and its range is not known")
	case !d.begun:
		d.begun = true
	case v >= d.last:
		d.total += v - d.last
	case d.wrap >= d.last && d.wrap > 0:
		d.total += d.wrap - d.last + v
	default: // without the range what it grew by is anyone's guess
		d.broken = true
		return errors.New(d.f.path + ": the counter went back and its range is not known")
	}
	d.last = v
	return nil
}

// readUint reads a file that holds one number.
func (f *file) readUint() (uint64, error) {
	b, err := f.read()
	if err != nil {
		return 0, err
	}
	v, ok := uintOf(firstWord(b))
	if !ok {
		return 0, fmt.Errorf("%s says %q, want a number", f.path, shorten(b))
	}
	return v, nil
}
