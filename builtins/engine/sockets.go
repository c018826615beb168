package engine

// Who listens on a port: /proc/net/tcp and tcp6, by socket inode.
//
//	  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
//	   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 31337 1 0000000000000000 100 0 0 10 0

import (
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"strconv"
	"strings"
)

// listener is one listening socket.
type listener struct {
	addr  netip.Addr
	port  int
	uid   int
	inode uint64
}

// local reports whether a client of 127.0.0.1 may reach the socket.
func (l listener) local() bool {
	a := l.addr.Unmap()
	return a.IsUnspecified() || a.IsLoopback()
}

// parseListeners reads one table and keeps the listening sockets. Lines it does not understand are skipped.
func parseListeners(table string) []listener {
	const listening = "0A"
	var out []listener
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) < 10 || f[3] != listening {
			continue
		}
		addr, port, ok := parseSocketAddr(f[1])
		if !ok {
			continue
		}
		uid, err1 := strconv.Atoi(f[7])
		inode, err2 := strconv.ParseUint(f[9], 10, 64)
		if err1 != nil || err2 != nil {
			continue
		}
		out = append(out, listener{addr, port, uid, inode})
	}
	return out
}

// parseSocketAddr reads "0100007F:1F90": words of the address as the machine stores them, then the port.
func parseSocketAddr(s string) (netip.Addr, int, bool) {
	host, p, ok := strings.Cut(s, ":")
	if !ok {
		return netip.Addr{}, 0, false
	}
	port, err := strconv.ParseUint(p, 16, 16)
	if err != nil {
		return netip.Addr{}, 0, false
	}
	b, err := hex.DecodeString(host)
	if err != nil || len(b) != 4 && len(b) != 16 {
		return netip.Addr{}, 0, false
	}
	for i := 0; i < len(b); i += 4 {
		binary.NativeEndian.PutUint32(b[i:], binary.BigEndian.Uint32(b[i:]))
	}
	addr, ok := netip.AddrFromSlice(b)
	return addr, int(port), ok
}
