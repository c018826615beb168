package hardware

// powermetrics, Apple's own: the only source of power and clocks on Apple machines, and root's. Its text is
// for people and its property lists come one after another with a zero byte between them. What it prints
// under these names has been stable since macOS 12; what is new is left out until it is known.

import (
	"bytes"
	"encoding/xml"
	"io"
	"strconv"
	"strings"
)

// powermetrics --samplers cpu_power,gpu_power,thermal -i 1000 as text:
//
//	*** Sampled system activity (Thu Oct  1 10:00:00 2026 +0200) (1005.04ms elapsed) ***
//	E-Cluster HW active frequency: 1020 MHz
//	E-Cluster HW active residency:  12.34% (600 MHz:   0% 972 MHz:  88%)
//	CPU Power: 1234 mW
//	Combined Power (CPU + GPU + ANE): 4567 mW
//	Current pressure level: Nominal
type powermetrics struct{}

func (*powermetrics) reset() {}
func (*powermetrics) line(b []byte, give found) {
	text := strings.TrimSpace(string(b))
	if rest, ok := strings.CutPrefix(text, "*** Sampled system activity"); ok {
		if i := strings.LastIndexByte(rest, '('); i >= 0 {
			if v, unit, ok := quantityOf(rest[i+1:]); ok && strings.HasPrefix(unit, "ms elapsed") {
				give("elapsed_ms", "ms", v)
			}
		}
		return
	}
	key, value, ok := strings.Cut(text, ":")
	if !ok {
		return
	}
	if i := strings.IndexByte(key, '('); i > 0 {
		key = key[:i]
	}
	key = strings.TrimSpace(key)
	if key == "Current pressure level" {
		thermalPressure(value, give)
		return
	}
	first, _, _ := strings.Cut(strings.TrimSpace(value), "(")
	v, unit, ok := quantityOf(first)
	if !ok {
		return
	}
	name := slug(strings.ReplaceAll(strings.ToLower(key), "-", "_"))
	switch {
	case strings.HasSuffix(key, " Power") && unit == "mW":
		if name == "combined_power" {
			name = "package_power" // CPU, GPU and neural engine; not the display, memory or drives
		}
		give(name+"_w", "W", v/1000)
	case strings.HasSuffix(key, "frequency") && unit == "MHz":
		name = strings.TrimSuffix(strings.ReplaceAll(name, "_hw_active", ""), "_frequency")
		give(name+"_mhz", "MHz", v)
	case strings.HasSuffix(key, "residency") && unit == "%":
		name = strings.TrimSuffix(strings.ReplaceAll(name, "_hw_active", "_active"), "_residency")
		give(name+"_pct", "%", v)
	}
}

// thermalPressure is Apple's word for throttling: anything above nominal costs clock.
func thermalPressure(word string, give found) {
	for i, w := range []string{"nominal", "moderate", "heavy", "trapping", "sleeping"} {
		if strings.EqualFold(strings.TrimSpace(word), w) {
			give("thermal_pressure", "level", float64(i))
		}
	}
}

// plistFormat collects the lines of one property list (powermetrics -f plist) and reads it at its end.
type plistFormat struct{ buf bytes.Buffer }

// plistMost bounds one sample; they are about 100 KiB with every sampler on.
const plistMost = 8 << 20

func (p *plistFormat) reset() { p.buf.Reset() }

func (p *plistFormat) line(b []byte, give found) {
	if i := bytes.IndexByte(b, 0); i >= 0 { // the next one begins
		p.buf.Reset()
		b = b[i+1:]
	}
	if p.buf.Len()+len(b) > plistMost {
		p.buf.Reset()
		return
	}
	p.buf.Write(b)
	p.buf.WriteByte('\n')
	if bytes.Contains(b, []byte("</plist>")) {
		m := parsePlist(p.buf.Bytes())
		p.buf.Reset()
		plistValues(m, give)
	}
}

// parsePlist reads an XML property list; numbers become float64, what it does not know nil.
func parsePlist(b []byte) map[string]any {
	d := xml.NewDecoder(bytes.NewReader(b))
	d.Strict = false
	for {
		t, err := d.Token()
		if err != nil {
			return nil
		}
		if s, ok := t.(xml.StartElement); ok && s.Name.Local == "dict" {
			m, _ := plistDict(d, 0)
			return m
		}
	}
}

const plistDepth = 32

func plistDict(d *xml.Decoder, depth int) (map[string]any, error) {
	m := map[string]any{}
	key := ""
	for {
		t, err := d.Token()
		if err != nil {
			return m, err
		}
		switch s := t.(type) {
		case xml.EndElement:
			return m, nil
		case xml.StartElement:
			if s.Name.Local == "key" {
				if key, err = plistText(d); err != nil {
					return m, err
				}
				continue
			}
			v, err := plistValue(d, s.Name.Local, depth)
			if key != "" {
				m[key] = v
			}
			if key = ""; err != nil {
				return m, err
			}
		}
	}
}

func plistValue(d *xml.Decoder, kind string, depth int) (any, error) {
	switch kind {
	case "dict":
		if depth >= plistDepth {
			return nil, d.Skip()
		}
		return plistDict(d, depth+1)
	case "array":
		if depth >= plistDepth {
			return nil, d.Skip()
		}
		var out []any
		for {
			t, err := d.Token()
			if err != nil {
				return out, err
			}
			switch s := t.(type) {
			case xml.EndElement:
				return out, nil
			case xml.StartElement:
				v, err := plistValue(d, s.Name.Local, depth+1)
				if err != nil {
					return out, err
				}
				out = append(out, v)
			}
		}
	case "integer", "real":
		s, err := plistText(d)
		if v, bad := strconv.ParseFloat(strings.TrimSpace(s), 64); bad == nil && finite(v) {
			return v, err
		}
		return nil, err
	case "string", "date":
		return plistText(d)
	case "true", "false":
		return kind == "true", d.Skip()
	}
	return nil, d.Skip()
}

func plistText(d *xml.Decoder) (string, error) {
	var b strings.Builder
	for {
		t, err := d.Token()
		if err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return b.String(), err
		}
		switch s := t.(type) {
		case xml.CharData:
			b.Write(s)
		case xml.StartElement:
			if err := d.Skip(); err != nil {
				return b.String(), err
			}
		case xml.EndElement:
			return b.String(), nil
		}
	}
}

// plistValues gives what flow knows, under the names that the text form has as well.
func plistValues(m map[string]any, give found) {
	num := func(from map[string]any, key, name, unit string, by float64) {
		if v, ok := from[key].(float64); ok {
			give(name, unit, v*by)
		}
	}
	num(m, "elapsed_ns", "elapsed_ms", "ms", 1e-6)
	if s, ok := m["thermal_pressure"].(string); ok {
		thermalPressure(s, give)
	}
	if cpu, ok := m["processor"].(map[string]any); ok {
		num(cpu, "cpu_power", "cpu_power_w", "W", 1e-3)
		num(cpu, "gpu_power", "gpu_power_w", "W", 1e-3)
		num(cpu, "ane_power", "ane_power_w", "W", 1e-3)
		num(cpu, "combined_power", "package_power_w", "W", 1e-3)
		clusters, _ := cpu["clusters"].([]any)
		names := unique{}
		for _, c := range clusters {
			c, ok := c.(map[string]any)
			if !ok {
				continue
			}
			label, _ := c["name"].(string)
			if label = slug(strings.ReplaceAll(label, "-", "_")); label == "" {
				continue
			}
			label = names.name(label)
			num(c, "freq_hz", label+"_mhz", "MHz", 1e-6)
			if v, ok := c["idle_ratio"].(float64); ok {
				give(label+"_active_pct", "%", 100-100*v)
			}
		}
	}
	if gpu, ok := m["gpu"].(map[string]any); ok {
		num(gpu, "freq_hz", "gpu_mhz", "MHz", 1) // named Hz, and in MHz all the same
		if v, ok := gpu["idle_ratio"].(float64); ok {
			give("gpu_active_pct", "%", 100-100*v)
		}
	}
}
