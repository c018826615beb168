package client

import (
	"encoding/binary"
	"errors"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// kernelClock turns the kernel's receive times, which are wall time, into the client's clock.
//
// offset is wall minus monotonic. Both are slewed alike, so only a step of the wall clock changes it; it is
// read anew at both ends of every request and every second in between.
type kernelClock struct {
	now    func() int64
	wall   func() int64 // 0 where it cannot be read
	offset atomic.Int64
	at     atomic.Int64 // when it was read
	sure   bool         // a stamp was seen
}

// newKernelClock gives nil where a socket cannot ask for stamps. The kernel switches stamping on for all sockets
// together, late, by a work queue, and reads before the switch have no stamp. So a pair of sockets of our own
// is read until a stamp comes, and is kept open so that stamping stays on. Where the switch is so late that
// nobody waits for it, because every core is taken, stamps come in the middle of a request; each read says
// whether it had one.
func newKernelClock(now, wall func() int64) (*kernelClock, func()) {
	if wall == nil {
		wall = wallTime
	}
	k := &kernelClock{now: now, wall: wall}
	k.measure()
	out, in, err := loopback()
	if err != nil {
		return nil, func() {}
	}
	shut := func() { _, _ = in.Close(), out.Close() }
	if k.sure, err = k.warm(out, in); err != nil {
		shut()
		return nil, func() {}
	}
	return k, shut
}

// wallTime is the clock that the kernel stamps with.
func wallTime() int64 {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_REALTIME, &ts) != nil {
		return 0
	}
	return ts.Nano()
}

// loopback is a connection of this process to itself.
func loopback() (out, in net.Conn, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	defer l.Close()
	if out, err = net.DialTimeout("tcp", l.Addr().String(), time.Second); err != nil {
		return nil, nil, err
	}
	// Whoever connected in between is not us.
	for {
		if in, err = l.Accept(); err != nil {
			_ = out.Close()
			return nil, nil, err
		}
		if in.RemoteAddr().String() == out.LocalAddr().String() {
			return out, in, nil
		}
		_ = in.Close()
	}
}

// warm sends bytes until one arrives with a stamp: a millisecond, seen. After a tenth of a second it is false.
func (k *kernelClock) warm(out, in net.Conn) (bool, error) {
	s := k.stamped(in)
	if s == nil {
		return false, errors.New("no stamps can be asked for")
	}
	_ = in.SetDeadline(time.Now().Add(time.Second))
	var b [1]byte
	for range 100 {
		if _, err := out.Write(b[:]); err != nil {
			return false, err
		}
		_, at, err := s.readStamped(b[:])
		if err != nil {
			return false, err
		}
		if at.kernel {
			return true, nil
		}
		time.Sleep(time.Millisecond) // the work queue's turn
	}
	return false, nil
}

// measure reads wall minus monotonic, the tightest of a few tries.
func (k *kernelClock) measure() int64 {
	if k == nil {
		return 0
	}
	var offset, width int64 = 0, 1 << 62
	for range 5 {
		a := k.now()
		wall := k.wall()
		if wall == 0 {
			break
		}
		b := k.now()
		if b-a < width {
			width, offset = b-a, wall-(a+(b-a)/2)
		}
	}
	k.offset.Store(offset)
	k.at.Store(k.now())
	return offset
}

// fresh is measure, unless that was done within the last millisecond: short requests by the thousand share a
// reading.
func (k *kernelClock) fresh() int64 {
	if k == nil {
		return 0
	}
	if k.now()-k.at.Load() < int64(time.Millisecond) {
		return k.offset.Load()
	}
	return k.measure()
}

// stamped puts kernel stamps on a connection, or gives nil where that cannot be done.
func (k *kernelClock) stamped(conn net.Conn) source {
	tcp, ok := conn.(*net.TCPConn)
	if k == nil || !ok {
		return nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil
	}
	var set error
	err = raw.Control(func(fd uintptr) { set = stampReads(int(fd)) })
	if err != nil || set != nil {
		return nil
	}
	s := &kernelStamped{TCPConn: tcp, raw: raw, stamper: stamper{clock: k}, control: make([]byte, controlSize)}
	s.attempt = s.try
	return s
}

// controlSize is room for a receive time and something beside it.
const controlSize = 128

// stamper turns what came with the reads of one connection into stamps.
type stamper struct {
	clock      *kernelClock
	lastKernel int64
	last       int64 // of any read
}

// of gives the stamp of a read that ended at now: the time at which the last segment of what was read came
// in, or now where the kernel did not say or what it said cannot be.
func (s *stamper) of(control []byte, now int64) stamp {
	at := s.kernel(control, now)
	s.last = at.ns
	return at
}

func (s *stamper) kernel(control []byte, now int64) stamp {
	wall := kernelTime(control)
	if wall == 0 {
		return stamp{ns: now}
	}
	if now-s.clock.at.Load() > int64(time.Second) {
		s.clock.measure()
	}
	at := wall - s.clock.offset.Load()
	// A stepped wall clock would put the arrival after its read, or before the read before it. Such a
	// stamp is worth less than the late one.
	if at > now+unsure || at < s.lastKernel-unsure {
		return stamp{ns: now}
	}
	// Two readings of the offset differ by some nanoseconds, and two reads of one segment have one stamp. What
	// lay there while the read before it got the later one is no earlier than that.
	at = min(max(at, s.last), now)
	s.lastKernel = at
	return stamp{ns: at, kernel: true}
}

// stampReads asks the kernel for receive times.
func stampReads(fd int) error {
	return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
}

// kernelStamped reads with recvmsg, whose control message has the receive time: neither a busy machine nor a
// late goroutine bends it. It is below TLS; a plain connection is read by the poller.
type kernelStamped struct {
	*net.TCPConn
	stamper
	raw     syscall.RawConn
	control []byte

	// One read at a time; kept here so that a read allocates nothing.
	attempt func(fd uintptr) bool
	into    []byte
	n, oob  int
	err     error
}

// try is one recvmsg; false is "wait until there is something".
func (s *kernelStamped) try(fd uintptr) bool {
	for {
		s.n, s.oob, _, _, s.err = unix.RecvmsgBuffers(int(fd), [][]byte{s.into}, s.control, 0)
		if s.err != unix.EINTR {
			break
		}
	}
	return s.err != unix.EAGAIN
}

func (s *kernelStamped) readStamped(b []byte) (int, stamp, error) {
	s.into = b
	err := s.raw.Read(s.attempt)
	now := s.clock.now()
	s.into = nil
	if err != nil {
		return 0, stamp{ns: now}, err
	}
	if s.err != nil {
		return 0, stamp{ns: now}, &net.OpError{Op: "read", Net: "tcp", Source: s.LocalAddr(), Addr: s.RemoteAddr(), Err: s.err}
	}
	if s.n == 0 && len(b) > 0 {
		return 0, stamp{ns: now}, errEOF
	}
	return s.n, s.of(s.control[:s.oob], now), nil
}

// kernelTime finds SCM_TIMESTAMPNS in control messages; 0 is none. It walks them by hand: the parser of
// x/sys allocates for each.
func kernelTime(oob []byte) int64 {
	const header = unix.SizeofCmsghdr
	for len(oob) >= header {
		// struct cmsghdr { size_t len; int level; int type; }: the length takes a word.
		var size int
		if header == 16 {
			size = int(binary.NativeEndian.Uint64(oob))
		} else {
			size = int(binary.NativeEndian.Uint32(oob))
		}
		if size < header || size > len(oob) {
			return 0
		}
		level, kind := int32(binary.NativeEndian.Uint32(oob[header-8:])), int32(binary.NativeEndian.Uint32(oob[header-4:]))
		data := oob[header:size]
		if level == unix.SOL_SOCKET && kind == unix.SCM_TIMESTAMPNS {
			switch {
			case len(data) >= 16:
				return int64(binary.NativeEndian.Uint64(data))*1e9 + int64(binary.NativeEndian.Uint64(data[8:]))
			case len(data) >= 8:
				return int64(binary.NativeEndian.Uint32(data))*1e9 + int64(binary.NativeEndian.Uint32(data[4:]))
			}
			return 0
		}
		next := unix.CmsgSpace(size - header)
		if next > len(oob) {
			return 0
		}
		oob = oob[next:]
	}
	return 0
}
