package hardware

// /proc/meminfo: how much memory and swap there is and what it is used for.

import (
	"bytes"
	"errors"
	"path/filepath"
)

type meminfo struct {
	total, free, available, buffers, cached, swapTotal, swapFree, mlocked, dirty number // KiB
}

func openMeminfo(o Options) Source {
	return openText(o, "meminfo", filepath.Join(o.Proc, "meminfo"), parseMeminfo, []gauge[meminfo]{
		{name: "meminfo.total_mib", unit: "MiB", get: func(m *meminfo) (float64, bool) { return m.total.kib() }},
		{name: "meminfo.available_mib", unit: "MiB", get: func(m *meminfo) (float64, bool) { return m.available.kib() }, lacks: "kernels before 3.14 have none"},
		{name: "meminfo.free_mib", unit: "MiB", get: func(m *meminfo) (float64, bool) { return m.free.kib() }},
		{name: "meminfo.buffers_mib", unit: "MiB", get: func(m *meminfo) (float64, bool) { return m.buffers.kib() }},
		{name: "meminfo.cached_mib", unit: "MiB", get: func(m *meminfo) (float64, bool) { return m.cached.kib() }},
		{name: "meminfo.dirty_mib", unit: "MiB", get: func(m *meminfo) (float64, bool) { return m.dirty.kib() }},
		{name: "meminfo.mlocked_mib", unit: "MiB", get: func(m *meminfo) (float64, bool) { return m.mlocked.kib() }},
		{name: "meminfo.swap_total_mib", unit: "MiB", get: func(m *meminfo) (float64, bool) { return m.swapTotal.kib() }},
		{name: "meminfo.swap_used_mib", unit: "MiB", get: func(m *meminfo) (float64, bool) {
			return number{m.swapTotal.v - m.swapFree.v, m.swapTotal.ok && m.swapFree.ok && m.swapFree.v <= m.swapTotal.v}.kib()
		}},
	}, reason)
}

// parseMeminfo reads:
//
//	MemTotal:       24683652 kB
//	MemFree:        21615604 kB
//	HugePages_Total:       0
func parseMeminfo(b []byte, m *meminfo) error {
	*m = meminfo{}
	for len(b) > 0 {
		var line []byte
		line, b = cutLine(b)
		i := bytes.IndexByte(line, ':')
		if i < 0 {
			continue
		}
		var into *number
		switch string(line[:i]) {
		case "MemTotal":
			into = &m.total
		case "MemFree":
			into = &m.free
		case "MemAvailable":
			into = &m.available
		case "Buffers":
			into = &m.buffers
		case "Cached":
			into = &m.cached
		case "SwapTotal":
			into = &m.swapTotal
		case "SwapFree":
			into = &m.swapFree
		case "Mlocked":
			into = &m.mlocked
		case "Dirty":
			into = &m.dirty
		default:
			continue
		}
		value, rest := cutField(line[i+1:])
		if unit, _ := cutField(rest); string(unit) == "kB" {
			*into = numberOf(value)
		}
	}
	if !m.total.ok {
		return errors.New("meminfo: no MemTotal line")
	}
	return nil
}
