package hardware

// A text source: one kernel file, its parser, and a table of the sensors that its values feed.

import (
	"time"

	"flow/workflows/record"
)

// gauge is a sensor and where its value is in what a parser fills in.
type gauge[T any] struct {
	name    string
	unit    string
	counter bool
	period  int // ms between real updates; 0 is "at every reading"
	later   bool
	get     func(*T) (float64, bool) // false: not in the text (or, where later is set, not until the second reading)
	lacks   string                   // why the text may lack it
}

// text is a source that reads one file.
type text[T any] struct {
	name    string
	f       *file // nil: not available
	v       T
	parse   func([]byte, *T) error // may keep what it needs of the reading before in T
	gauges  []gauge[T]
	sensors []record.Sensor
}

// openText reads the file once to learn which of the gauges it feeds.
func openText[T any](o Options, name, path string, parse func([]byte, *T) error, gauges []gauge[T], explain func(string, error) (why, fix string)) Source {
	s := &text[T]{name: name, parse: parse, gauges: gauges}
	f, err := openFile(o, path)
	if err == nil {
		s.f = f
		var b []byte
		if b, err = f.read(); err == nil {
			err = parse(b, &s.v)
		}
		if err != nil {
			_ = f.close()
			s.f = nil
		}
	}
	for _, g := range gauges {
		x := record.Sensor{Name: g.name, Unit: g.unit, Source: path, Counter: g.counter, PeriodMS: g.period, Available: err == nil}
		switch {
		case err != nil:
			x.Why, x.Fix = explain(path, err)
		case !g.later:
			if _, x.Available = g.get(&s.v); !x.Available {
				x.Why, x.Fix = path+" has no such value", "use a kernel that prints it"
				if g.lacks != "" {
					x.Why += ": " + g.lacks
				}
			}
		}
		s.sensors = append(s.sensors, x)
	}
	s.reset()
	return s
}

func (s *text[T]) Name() string             { return s.name }
func (s *text[T]) Sensors() []record.Sensor { return s.sensors }
func (s *text[T]) every() time.Duration {
	switch s.name {
	case "self":
		return paceFast
	case "loadavg":
		return paceSlow
	}
	return paceUsual
}
func (s *text[T]) Close() error {
	f := s.f
	s.f = nil
	return f.close()
}

func (s *text[T]) reset() {
	var zero T
	s.v = zero
}

func (s *text[T]) Sample(_ int64, emit func(string, float64)) error {
	if s.f == nil {
		return nil
	}
	b, err := s.f.read()
	if err != nil {
		return err
	}
	if err := s.parse(b, &s.v); err != nil {
		return err
	}
	for i := range s.gauges {
		if v, ok := s.gauges[i].get(&s.v); ok {
			emit(s.gauges[i].name, v)
		}
	}
	return nil
}

// plain is a number as it stands.
func (n number) plain() (float64, bool) { return float64(n.v), n.ok }

// kib is a number of KiB, in MiB.
func (n number) kib() (float64, bool) { return float64(n.v) / 1024, n.ok }

// ticks is a number of USER_HZ ticks, in seconds.
func (n number) ticks() (float64, bool) { return float64(n.v) / userHZ, n.ok }

// userHZ is 100 on every architecture of Linux that Go runs on, whatever the kernel's own HZ is.
const userHZ = 100
