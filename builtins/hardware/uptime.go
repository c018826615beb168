package hardware

// How long the machine has been up, and whether it slept: an arm across a suspend is no measurement, and
// CLOCK_MONOTONIC does not show it, because it stands still.

import (
	"path/filepath"

	"flow/workflows/record"
)

type uptime struct {
	cells
	asleep func() (seconds float64, ok bool)
	sensor string // "" where it cannot be told
}

func openUptime(o Options) Source {
	u := &uptime{cells: cells{name: "uptime", pace: paceSlow}, asleep: asleep}
	u.add(o, filepath.Join(o.Proc, "uptime"), record.Sensor{Name: "uptime.s", Unit: "s", Counter: true}, func(b []byte) (float64, bool) { return decimalOf(firstWord(b)) })
	u.add(o, filepath.Join(o.Sys, "power/suspend_stats/success"), record.Sensor{Name: "uptime.suspends", Unit: "suspends", Counter: true}, scaled(1))
	if x := &u.sensors[1]; !x.Available && o.OS == "linux" {
		x.Why, x.Fix = "the kernel does not count suspends, or cannot suspend", "nothing to do where the machine never sleeps"
	}
	s := record.Sensor{Name: "uptime.suspended_s", Unit: "s", Source: "CLOCK_BOOTTIME less CLOCK_MONOTONIC", Counter: true}
	switch _, ok := u.asleep(); {
	case o.Proc != "/proc":
		s.Why, s.Fix = "the clocks are those of another machine than "+o.Proc, "read the machine itself"
	case !ok:
		s.Why, s.Fix = "the system has no clock that counts time asleep", "run on Linux"
	default:
		s.Available, u.sensor = true, s.Name
	}
	u.sensors = append(u.sensors, s)
	return u
}

func (u *uptime) Sample(now int64, emit func(string, float64)) error {
	err := u.cells.Sample(now, emit)
	if u.sensor != "" {
		if v, ok := u.asleep(); ok {
			emit(u.sensor, max(v, 0)) // the two clocks are not read at one instant
		}
	}
	return err
}

// openPower says where the current comes from: on a battery CPUs and GPUs run slower.
func openPower(o Options) Source {
	c := &cells{name: "power", pace: paceSlow}
	dir := filepath.Join(o.Sys, "class/power_supply")
	var mains, battery []string
	for _, path := range dirsIn(dir) {
		switch textOf(o, filepath.Join(path, "type")) {
		case "Mains", "USB":
			mains = append(mains, filepath.Join(path, "online"))
		case "Battery":
			if textOf(o, filepath.Join(path, "scope")) != "Device" { // a mouse has one as well
				battery = append(battery, path)
			}
		}
	}
	ac := record.Sensor{Name: "power.ac", Unit: "0 or 1"}
	charge := record.Sensor{Name: "power.battery_pct", Unit: "%"}
	drain := record.Sensor{Name: "power.battery_w", Unit: "W"}
	noBattery := func(s record.Sensor) record.Sensor { s.Source = dir; return s }
	why := nothingIn(o, dir, "no battery")
	fix := "nothing to do: the machine runs on mains"
	if len(mains) > 0 {
		m := &anyOf{}
		for _, p := range mains {
			if f, err := openFile(o, p); err == nil {
				m.files = append(m.files, f)
			}
		}
		ac.Source = mains[0]
		if len(m.files) == 0 {
			c.none("no permission to read "+mains[0], "sudo chmod a+r "+mains[0], ac)
		} else {
			ac.Available = true
			c.sensors = append(c.sensors, ac)
			c.list = append(c.list, cell{f: m.files[0], sensor: ac.Name, get: m.any})
			m.files = m.files[1:]
			c.extra = m.files
		}
	} else {
		c.none(nothingIn(o, dir, "no power supply that says whether it is connected"), fix, noBattery(ac))
	}
	if len(battery) == 0 {
		c.none(why, fix, noBattery(charge), noBattery(drain))
		return c
	}
	c.add(o, filepath.Join(battery[0], "capacity"), charge, scaled(1))
	c.add(o, filepath.Join(battery[0], "power_now"), drain, scaled(1e-6))
	return c
}

// anyOf is 1 when one of several files says 1: a laptop charges by its own socket or by USB.
type anyOf struct{ files []*file }

func (m *anyOf) any(b []byte) (float64, bool) {
	v, ok := scaled(1)(b)
	for _, f := range m.files {
		if v == 1 {
			break
		}
		if b, err := f.read(); err == nil {
			if w, good := scaled(1)(b); good {
				v, ok = w, true
			}
		}
	}
	return v, ok
}
