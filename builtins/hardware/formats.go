package hardware

// What external collectors print, line by line. A parser takes a line and gives what it finds in it; what
// it does not know it leaves out, and it never fails: a collector's line of chatter is not an error.

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"sort"
	"strconv"
	"strings"
)

// found takes one number: its name below the collector's, its unit ("" is taken from the name).
type found func(name, unit string, value float64)

// format reads the lines of one collector, in order. reset begins a new run of the command.
type format interface {
	line(b []byte, give found)
	reset()
}

// newFormat is the reader of one of plan.CollectorFormats; nil where there is none.
func newFormat(name string) format {
	switch name {
	case "csv":
		return &csvFormat{}
	case "jsonl":
		return jsonFormat{}
	case "key=value":
		return keyFormat{}
	case "powermetrics":
		return &powermetrics{}
	case "powermetrics-plist":
		return &plistFormat{}
	case "nvidia-smi":
		return &csvFormat{smi: true}
	case "rocm-smi":
		return rocmFormat{}
	case "ipmitool":
		return ipmiFormat{}
	}
	return nil
}

// number with a unit behind it, as programs print for people: "58.12 W", "1005.04ms", "12.3%", "(500Mhz)".
func quantityOf(s string) (v float64, unit string, ok bool) {
	s = strings.Trim(strings.TrimSpace(s), "()\"")
	n := 0
	for n < len(s) && (s[n] >= '0' && s[n] <= '9' || s[n] == '.' || (s[n] == '-' || s[n] == '+') && n == 0) {
		n++
	}
	if n < len(s) && n > 0 && (s[n] == 'e' || s[n] == 'E') { // 1.2e-05
		m := n + 1
		if m < len(s) && (s[m] == '-' || s[m] == '+') {
			m++
		}
		k := m
		for k < len(s) && s[k] >= '0' && s[k] <= '9' {
			k++
		}
		if k > m {
			n = k
		}
	}
	v, err := strconv.ParseFloat(s[:n], 64)
	if err != nil || !finite(v) {
		return 0, "", false
	}
	return v, strings.TrimSpace(s[n:]), true
}

// standard turns a value with a printed unit into flow's units and the suffix of a name. ok is false where
// the unit is not one that flow knows; then the value stays as it is.
func standard(v float64, unit string) (w float64, suffix, name string, ok bool) {
	switch strings.ToLower(strings.TrimSpace(unit)) {
	case "w", "watt", "watts":
		return v, "_w", "W", true
	case "mw", "milliwatts":
		return v / 1000, "_w", "W", true
	case "j", "joules":
		return v, "_j", "J", true
	case "mj":
		return v / 1000, "_j", "J", true
	case "mhz":
		return v, "_mhz", "MHz", true
	case "hz":
		return v / 1e6, "_mhz", "MHz", true
	case "c", "°c", "degrees c", "celsius":
		return v, "_c", "°C", true
	case "%", "percent":
		return v, "_pct", "%", true
	case "mib":
		return v, "_mib", "MiB", true
	case "kib":
		return v / 1024, "_mib", "MiB", true
	case "gib":
		return v * 1024, "_mib", "MiB", true
	case "rpm":
		return v, "_rpm", "rpm", true
	case "volts", "v":
		return v, "_v", "V", true
	case "amps", "a":
		return v, "_a", "A", true
	}
	return v, "", "", false
}

// unitOf is the unit that a sensor's name says.
func unitOf(name string) string {
	for _, x := range [...]struct{ suffix, unit string }{
		{"_w", "W"}, {"_j", "J"}, {"_c", "°C"}, {"_mhz", "MHz"}, {"_pct", "%"}, {"_mib_s", "MiB/s"}, {"_mib", "MiB"}, {"_ms", "ms"},
		{"_us", "µs"}, {"_rpm", "rpm"}, {"_v", "V"}, {"_a", "A"}, {"_s", "s"}, {"_uj", "µJ"}, {"_mj", "mJ"},
	} {
		if strings.HasSuffix(name, x.suffix) {
			return x.unit
		}
	}
	return "1"
}

// key=value words on a line, between blanks, commas or semicolons:
//
//	power_w=231.4 volts=229.8; t=17
type keyFormat struct{}

func (keyFormat) reset() {}
func (keyFormat) line(b []byte, give found) {
	for _, w := range strings.FieldsFunc(string(b), func(r rune) bool { return r == ' ' || r == '\t' || r == ',' || r == ';' || r == '\r' }) {
		k, v, ok := strings.Cut(w, "=")
		if !ok {
			continue
		}
		take(k, v, give)
	}
}

// take gives a value that may carry its unit: power=12W is power_w.
func take(key, text string, give found) {
	name := slug(strings.ReplaceAll(key, "-", "_"))
	v, unit, ok := quantityOf(text)
	if !ok || name == "" || isTime(name) {
		return
	}
	if unit == "" {
		give(name, "", v)
		return
	}
	w, suffix, u, known := standard(v, unit)
	if !known {
		give(name, unit, v)
		return
	}
	give(strings.TrimSuffix(name, suffix)+suffix, u, w)
}

// isTime is a column that says when, which flow's own clock does.
func isTime(name string) bool {
	switch name {
	case "time", "timestamp", "date", "datetime", "epoch", "epoch_s", "t", "ts":
		return true
	}
	return false
}

// One JSON object on a line; nested names are joined by points, true is 1:
//
//	{"power_w": 231.4, "outlet": {"on": true}}
type jsonFormat struct{}

func (jsonFormat) reset() {}
func (jsonFormat) line(b []byte, give found) {
	b = bytes.TrimSpace(b)
	if len(b) == 0 || b[0] != '{' {
		return
	}
	var m map[string]any
	if json.Unmarshal(b, &m) != nil {
		return
	}
	flatten("", m, 0, give)
}

func flatten(at string, m map[string]any, depth int, give found) {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	for _, k := range keys {
		name := slug(strings.ReplaceAll(k, "-", "_"))
		if name == "" || at == "" && isTime(name) {
			continue
		}
		switch v := m[k].(type) {
		case float64:
			give(at+name, "", v)
		case bool:
			give(at+name, "0 or 1", map[bool]float64{true: 1}[v])
		case map[string]any:
			if depth < 8 {
				flatten(at+name+".", v, depth+1, give)
			}
		}
	}
}

// CSV with a line of names, and what nvidia-smi --query-gpu=… --format=csv prints, which is CSV with units:
//
//	timestamp, index, power.draw [W], clocks.current.sm [MHz], temperature.gpu
//	2026/10/01 10:00:00.123, 0, 58.12 W, 1605 MHz, 45
type csvFormat struct {
	smi   bool
	names []string
	units []string
	index int // column of the GPU's number, -1 when none
}

func (c *csvFormat) reset() { c.names = nil }

func (c *csvFormat) line(b []byte, give found) {
	if len(bytes.TrimSpace(b)) == 0 {
		return
	}
	r := csv.NewReader(bytes.NewReader(b))
	r.TrimLeadingSpace, r.LazyQuotes, r.FieldsPerRecord = true, true, -1
	cells, err := r.Read()
	if err != nil {
		return
	}
	if c.names == nil && !c.header(cells) {
		return
	}
	if c.isHeader(cells) { // printed again by a restart
		return
	}
	at := ""
	if c.index >= 0 && c.index < len(cells) {
		if n, err := strconv.Atoi(strings.TrimSpace(cells[c.index])); err == nil && n >= 0 {
			at = strconv.Itoa(n) + "."
		}
	}
	for i, cell := range cells {
		if i >= len(c.names) || i == c.index || c.names[i] == "" {
			continue
		}
		v, unit, ok := quantityOf(cell)
		if !ok {
			continue
		}
		if unit == "" {
			unit = c.units[i]
		}
		w, suffix, u, known := standard(v, unit)
		if !known {
			give(at+c.names[i], unit, v)
			continue
		}
		name := c.names[i]
		if !strings.HasSuffix(name, suffix) {
			name += suffix
		}
		give(at+name, u, w)
	}
}

// header takes the names; a first line of numbers alone has none, and its columns get some.
func (c *csvFormat) header(cells []string) (data bool) {
	c.index = -1
	numbers := true
	for _, cell := range cells {
		if _, _, ok := quantityOf(cell); !ok {
			numbers = false
		}
	}
	for i, cell := range cells {
		if numbers {
			c.names, c.units = append(c.names, "column"+strconv.Itoa(i+1)), append(c.units, "")
			continue
		}
		name, unit := strings.TrimSpace(cell), ""
		if j := strings.IndexByte(name, '['); j >= 0 {
			name, unit = strings.TrimSpace(name[:j]), strings.Trim(name[j:], "[] ")
		}
		if c.smi {
			if n, u, ok := smiName(name); ok {
				c.names = append(c.names, n)
				if unit == "" {
					unit = u
				}
				c.units = append(c.units, unit)
				continue
			}
		}
		name = slug(strings.ReplaceAll(name, "-", "_"))
		if c.smi && name == "index" {
			c.index = i
		}
		if isTime(name) {
			name = ""
		}
		c.names, c.units = append(c.names, name), append(c.units, unit)
	}
	if c.names == nil {
		c.names = []string{}
	}
	return numbers
}

func (c *csvFormat) isHeader(cells []string) bool {
	for _, cell := range cells {
		if _, _, ok := quantityOf(cell); ok {
			return false
		}
		switch strings.ToLower(strings.Trim(cell, "[] ")) {
		case "n/a", "not supported", "":
			return false
		}
	}
	return true
}

// smiName is flow's own name of a column, the same that NVML's sensors have. Units are those of
// --format=csv,nounits.
func smiName(column string) (name, unit string, ok bool) {
	switch column {
	case "power.draw", "power.draw.instant":
		return "power_w", "W", true
	case "power.draw.average":
		return "power_average_w", "W", true
	case "enforced.power.limit", "power.limit":
		return "power_limit_w", "W", true
	case "clocks.sm", "clocks.current.sm":
		return "sm_clock_mhz", "MHz", true
	case "clocks.mem", "clocks.current.memory":
		return "mem_clock_mhz", "MHz", true
	case "temperature.gpu":
		return "temp_c", "C", true
	case "temperature.memory":
		return "mem_temp_c", "C", true
	case "memory.used":
		return "mem_used_mib", "MiB", true
	case "memory.total":
		return "mem_total_mib", "MiB", true
	case "utilization.gpu":
		return "util_pct", "%", true
	case "utilization.memory":
		return "mem_util_pct", "%", true
	case "pcie.link.gen.current":
		return "pcie_gen", "generation", true
	case "pcie.link.width.current":
		return "pcie_width", "lanes", true
	}
	return "", "", false
}

// rocm-smi --showpower --showtemp --showuse --showclocks --json prints one object on a line:
//
//	{"card0": {"Average Graphics Package Power (W)": "35.0", "Temperature (Sensor edge) (C)": "44.0",
//	           "GPU use (%)": "7", "sclk clock speed:": "(500Mhz)"}}
type rocmFormat struct{}

func (rocmFormat) reset() {}
func (rocmFormat) line(b []byte, give found) {
	b = bytes.TrimSpace(b)
	if i := bytes.IndexByte(b, '{'); i > 0 { // a warning may stand before it
		b = b[i:]
	}
	var cards map[string]map[string]any
	if json.Unmarshal(b, &cards) != nil {
		return
	}
	ids := make([]string, 0, len(cards))
	for id := range cards {
		ids = append(ids, id)
	}
	sort.Strings(ids)
	for _, id := range ids {
		n, ok := strings.CutPrefix(id, "card")
		if _, err := strconv.Atoi(n); !ok || err != nil {
			continue
		}
		keys := make([]string, 0, len(cards[id]))
		for k := range cards[id] {
			keys = append(keys, k)
		}
		sort.Strings(keys)
		seen := map[string]bool{}
		for _, k := range keys {
			text, isText := cards[id][k].(string)
			if f, ok := cards[id][k].(float64); ok {
				text, isText = strconv.FormatFloat(f, 'f', -1, 64), true
			}
			name, value, unit, ok := rocmValue(k, text)
			if isText && ok && !seen[name] {
				seen[name] = true
				give(n+"."+name, unit, value)
			}
		}
	}
}

func rocmValue(key, text string) (name string, v float64, unit string, ok bool) {
	v, _, ok = quantityOf(text)
	if !ok {
		return "", 0, "", false
	}
	k := strings.ToLower(key)
	switch {
	case strings.Contains(k, "power (w)") && !strings.Contains(k, "max"):
		return "power_w", v, "W", true
	case strings.Contains(k, "max") && strings.Contains(k, "power"):
		return "power_limit_w", v, "W", true
	case strings.Contains(k, "sensor edge"):
		return "temp_c", v, "°C", true
	case strings.Contains(k, "sensor junction"):
		return "temp_junction_c", v, "°C", true
	case strings.Contains(k, "sensor memory"):
		return "temp_mem_c", v, "°C", true
	case strings.HasPrefix(k, "gpu use"):
		return "util_pct", v, "%", true
	case strings.HasPrefix(k, "gpu memory use"), strings.HasPrefix(k, "gpu memory allocated"):
		return "mem_use_pct", v, "%", true
	case strings.HasPrefix(k, "sclk clock speed"):
		return "sclk_mhz", v, "MHz", true
	case strings.HasPrefix(k, "mclk clock speed"):
		return "mclk_mhz", v, "MHz", true
	case strings.HasPrefix(k, "vram total used"):
		return "mem_used_mib", v / (1 << 20), "MiB", true
	case strings.HasPrefix(k, "vram total memory"):
		return "mem_total_mib", v / (1 << 20), "MiB", true
	}
	return "", 0, "", false
}

// ipmitool sensor, ipmitool sdr, and ipmitool dcmi power reading:
//
//	PSU1 Power       | 220.000    | Watts      | ok    | na | na
//	CPU1 Temp        | 45 degrees C      | ok
//	    Instantaneous power reading:                   220 Watts
type ipmiFormat struct{}

func (ipmiFormat) reset() {}
func (ipmiFormat) line(b []byte, give found) {
	text := string(b)
	if f := strings.Split(text, "|"); len(f) >= 3 {
		v, unit, ok := quantityOf(f[1])
		if !ok || strings.HasPrefix(strings.TrimSpace(f[1]), "0x") {
			return
		}
		if unit == "" {
			unit = strings.TrimSpace(f[2])
		}
		ipmiGive(f[0], v, unit, give)
		return
	}
	key, rest, ok := strings.Cut(text, ":")
	if !ok {
		return
	}
	v, unit, good := quantityOf(rest)
	if good && strings.EqualFold(strings.TrimSpace(key), "instantaneous power reading") {
		ipmiGive("", v, unit, give)
	}
}

func ipmiGive(label string, v float64, unit string, give found) {
	w, suffix, u, ok := standard(v, unit)
	if !ok {
		return // discrete states and thresholds
	}
	name := slug(strings.NewReplacer("-", "_", "+", "").Replace(label))
	switch {
	case suffix == "_w" && name == "":
		name = "power"
	case name == "":
		return
	}
	give(name+suffix, u, w)
}
