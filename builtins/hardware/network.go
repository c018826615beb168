package hardware

// /proc/net/dev: bytes by interface. A model that is read from a file server, and a neighbour's download,
// are both seen here.

import (
	"bytes"
	"path/filepath"

	"flow/workflows/record"
)

type network struct {
	f       *file
	links   []link
	sensors []record.Sensor
}

type link struct{ name, rx, tx string }

const networkMost = 16

func openNetwork(o Options) Source {
	n := &network{}
	path := filepath.Join(o.Proc, "net/dev")
	f, err := openFile(o, path)
	var names []string
	if err == nil {
		var b []byte
		if b, err = f.read(); err == nil {
			eachLink(b, func(name []byte, _, _ uint64) {
				if len(names) < networkMost {
					names = append(names, string(name))
				}
			})
		}
	}
	var why, fix string
	switch {
	case err != nil:
		why, fix = reason(path, err)
	case len(names) == 0:
		why, fix = path+" lists no interface", "run where the network is visible"
	default:
		n.f = f
	}
	if n.f == nil && f != nil {
		_ = f.close()
	}
	if len(names) == 0 {
		names = []string{"*"}
	}
	for _, name := range names {
		l := link{name, "net." + name + ".rx_mib", "net." + name + ".tx_mib"}
		n.links = append(n.links, l)
		for _, s := range []string{l.rx, l.tx} {
			n.sensors = append(n.sensors, record.Sensor{Name: s, Unit: "MiB", Source: path, Counter: true, Available: why == "", Why: why, Fix: fix})
		}
	}
	return n
}

func (n *network) Name() string             { return "net" }
func (n *network) Sensors() []record.Sensor { return n.sensors }
func (n *network) Close() error {
	f := n.f
	n.f = nil
	return f.close()
}

func (n *network) Sample(_ int64, emit func(string, float64)) error {
	if n.f == nil {
		return nil
	}
	b, err := n.f.read()
	if err != nil {
		return err
	}
	for len(b) > 0 {
		var line []byte
		line, b = cutLine(b)
		name, rx, tx, ok := parseLink(line)
		if !ok {
			continue
		}
		for i := range n.links {
			if l := &n.links[i]; l.name == string(name) {
				emit(l.rx, float64(rx)/(1<<20))
				emit(l.tx, float64(tx)/(1<<20))
				break
			}
		}
	}
	return nil
}

func eachLink(b []byte, f func(name []byte, rx, tx uint64)) {
	for len(b) > 0 {
		var line []byte
		line, b = cutLine(b)
		if name, rx, tx, ok := parseLink(line); ok {
			f(name, rx, tx)
		}
	}
}

// parseLink reads (two lines of headings stand above, which have no colon):
//
//	eth0: 1296 17 0 0 0 0 0 0 1016 13 0 0 0 0 0 0
//	      rx bytes …          tx bytes
func parseLink(line []byte) (name []byte, rx, tx uint64, ok bool) {
	i := bytes.LastIndexByte(line, ':') // an alias such as eth0:1 has one in its name
	if i < 0 {
		return nil, 0, 0, false
	}
	name = bytes.TrimSpace(line[:i])
	f, rest := cutField(line[i+1:])
	if rx, ok = uintOf(f); !ok || len(name) == 0 {
		return nil, 0, 0, false
	}
	f, _ = cutField(skipFields(rest, 7))
	tx, ok = uintOf(f)
	return name, rx, tx, ok
}
