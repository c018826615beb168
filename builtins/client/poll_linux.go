package client

// One goroutine reads all connections whose stamps are the kernel's. The runtime's own poller wakes a
// goroutine for each frame, and often a thread beside it, and reads every socket twice to learn that it is
// empty: a third of the client's processor time. Because the kernel says when bytes came in, nobody has to
// run at once when they do: with many streams the goroutine sleeps a little before it looks again and reads
// what several streams have meanwhile. It sleeps so little that no stream's frame is followed by its next
// one meanwhile, because frames that lie together in a socket share a stamp.

import (
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	napStreams = 8                     // fewer streams are read at once: there is nothing to save
	napShare   = 8                     // a nap is this part of the shortest time between two frames of a stream
	napMost    = 2 * time.Millisecond  // the end of an answer is seen that much later at most
	napLeast   = 50 * time.Microsecond // what a sleep costs itself
)

// poller reads the connections of one client. The goroutine runs from the first connection on until the
// client is closed and the last exchange is over.
type poller struct {
	clock *kernelClock
	ep    int
	wake  int // an eventfd: look at shut

	mu   sync.Mutex
	open map[int32]*polled // being read
	shut bool
	gone bool // the goroutine has ended

	// Of the goroutine.
	buf, control []byte
	gap          int64 // the shortest time between two frames of a stream, lately: ns
	at, first    int64 // of the last read, and of the first one of this look
}

// newPoller gives nil where no kernel stamps can be had, or no descriptors.
func newPoller(clock *kernelClock) *poller {
	if clock == nil {
		return nil
	}
	ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil
	}
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err == nil {
		if err = unix.EpollCtl(ep, unix.EPOLL_CTL_ADD, wake, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(wake)}); err != nil {
			_ = unix.Close(wake)
		}
	}
	if err != nil {
		_ = unix.Close(ep)
		return nil
	}
	p := &poller{clock: clock, ep: ep, wake: wake, open: map[int32]*polled{}, buf: make([]byte, readSize), control: make([]byte, controlSize)}
	go p.loop()
	return p
}

// close lets the goroutine end when nothing is read any more.
func (p *poller) close() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shut = true
	if !p.gone {
		_, _ = unix.Write(p.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	}
}

// link takes a connection over from the runtime, whose own poller would be woken for each of its frames
// all the same. It gives nil, and leaves the connection as it was, where that cannot be done.
func (p *poller) link(conn net.Conn) link {
	tcp, ok := conn.(*net.TCPConn)
	if p == nil || !ok {
		return nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil
	}
	fd := -1
	var failed error
	err = raw.Control(func(own uintptr) {
		if failed = stampReads(int(own)); failed == nil {
			fd, failed = unix.FcntlInt(own, unix.F_DUPFD_CLOEXEC, 0)
		}
	})
	if err != nil || failed != nil {
		return nil
	}
	_ = tcp.Close()
	return &polled{fd: fd, poller: p, stamper: stamper{clock: p.clock}, done: make(chan struct{}, 1)}
}

// loop reads what is ready, again and again.
func (p *poller) loop() {
	events := make([]unix.EpollEvent, 64)
	for {
		n, err := unix.EpollWait(p.ep, events, -1)
		last := p.at
		p.first = 0
		if err != nil && err != unix.EINTR {
			n = 0 // cannot be: the descriptor is ours
		}
		for _, e := range events[:max(n, 0)] {
			if int(e.Fd) == p.wake {
				var b [8]byte
				_, _ = unix.Read(p.wake, b[:])
				continue
			}
			p.mu.Lock()
			c := p.open[e.Fd]
			p.mu.Unlock()
			if c != nil && p.read(c) {
				p.drop(c)
				c.done <- struct{}{}
			}
		}
		p.mu.Lock()
		streams := len(p.open)
		if p.gone = p.shut && streams == 0; p.gone {
			_, _ = unix.Close(p.ep), unix.Close(p.wake)
		}
		p.mu.Unlock()
		if p.gone {
			return
		}
		if d := p.nap(streams, p.first-last); d > 0 {
			ts := unix.NsecToTimespec(int64(d))
			_ = unix.ClockNanosleep(unix.CLOCK_MONOTONIC, 0, &ts, nil)
		}
	}
}

// nap is how long to sleep before the next look, when nothing had come for silent ns before this one. After a
// stall an engine writes at once what it could not before, so nobody sleeps then.
func (p *poller) nap(streams int, silent int64) time.Duration {
	d := min(time.Duration(p.gap/napShare), napMost)
	if streams < napStreams || d < napLeast || silent > 2*p.gap {
		return 0
	}
	return d
}

// saw learns from a read how close the frames of a stream come: the shortest time counts at once, and is
// forgotten over some hundred frames. The streams of an engine are alike, so one figure serves all.
func (p *poller) saw(c *polled, at stamp, t taken) {
	switch {
	case t.over && c.gaps == 0: // hardly a stream: whoever asked may be waiting to ask again
		p.gap = 0
	case t.frames == 0:
	case !at.kernel: // nobody else keeps the time: no naps
		p.gap = 0
	case t.frames > 1: // they may have come together, or during a nap
		p.gap, c.last = 0, at.ns
	default:
		if c.last != 0 {
			p.gap = min(p.gap+p.gap/64+1000, max(at.ns-c.last, 0))
			c.gaps++
		}
		c.last = at.ns
	}
}

// read takes what a connection has; true is the end of the exchange.
func (p *poller) read(c *polled) bool {
	if c.wasCut() {
		return c.take(nil, stamp{ns: p.clock.now()}, os.ErrDeadlineExceeded).over
	}
	n, control, _, _, err := unix.RecvmsgBuffers(c.fd, [][]byte{p.buf}, p.control, 0)
	now := p.clock.now()
	if p.at = now; p.first == 0 {
		p.first = now
	}
	switch {
	case err == unix.EINTR || err == unix.EAGAIN:
		return false
	case err != nil:
		return c.take(nil, stamp{ns: now}, os.NewSyscallError("recvmsg", err)).over
	case n == 0 && c.wasCut():
		return c.take(nil, stamp{ns: now}, os.ErrDeadlineExceeded).over
	case n == 0:
		return c.take(nil, stamp{ns: now}, errEOF).over
	}
	at := c.of(p.control[:control], now)
	t := c.take(p.buf[:n], at, nil)
	p.saw(c, at, t)
	return t.over
}

// add begins to read a connection; false is a poller that is gone.
func (p *poller) add(c *polled) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone || unix.EpollCtl(p.ep, unix.EPOLL_CTL_ADD, c.fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(c.fd)}) != nil {
		return false
	}
	p.open[int32(c.fd)] = c
	return true
}

func (p *poller) drop(c *polled) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = unix.EpollCtl(p.ep, unix.EPOLL_CTL_DEL, c.fd, nil)
	delete(p.open, int32(c.fd))
}

// polled is a connection that a poller reads. Its descriptor does not block.
type polled struct {
	fd     int
	poller *poller
	stamper
	take func(b []byte, at stamp, err error) taken
	done chan struct{}
	last int64 // stamp of the last frame of this exchange; 0 before the first
	gaps int   // times between two frames that this exchange showed

	mu     sync.Mutex
	closed bool
	ended  bool // cut
	timer  *time.Timer
}

var _ link = (*polled)(nil)

func (c *polled) send(b []byte, now func() int64) (began int64, early bool, err error) {
	for {
		early = !quiet(c.fd)
		began = now()
		n, err := syscall.Write(c.fd, b) // not x/sys: the race detector knows that what a server does comes after this one
		switch b = b[max(n, 0):]; {
		case len(b) == 0:
			return began, early, nil
		case err == unix.EAGAIN: // a long prompt, and a server that does not read yet; a cut ends the wait
			if !c.writable() {
				return began, true, errUnread
			}
		case err != nil && err != unix.EINTR:
			return began, early, os.NewSyscallError("write", err)
		}
	}
}

// writable waits until the server takes more of a request; false is a server that does not, and has answered
// or hung up.
func (c *polled) writable() bool {
	fds := []unix.PollFd{{Fd: int32(c.fd), Events: unix.POLLOUT | unix.POLLIN}}
	wait := -1
	for {
		n, err := unix.Poll(fds, wait)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil || n > 0 && fds[0].Revents&^unix.POLLIN != 0: // an error is the write's to find
			return true
		case n == 0:
			return false
		}
		fds[0].Events, wait = unix.POLLOUT, int(unreadWait/time.Millisecond)
	}
}

func (c *polled) deliver(take func(b []byte, at stamp, err error) taken) {
	c.take, c.last, c.gaps = take, 0, 0
	if !c.poller.add(c) {
		take(nil, stamp{ns: c.clock.now()}, net.ErrClosed)
		return
	}
	<-c.done
	c.take = nil
}

func (c *polled) wasCut() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended
}

func (c *polled) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed && !c.ended {
		c.ended = true
		_ = unix.Shutdown(c.fd, unix.SHUT_RDWR) // wakes whoever waits for it
	}
}

func (c *polled) cutIn(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stop()
	c.timer = time.AfterFunc(d, c.cut)
}

func (c *polled) stop() {
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
}

func (c *polled) rest() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stop()
	return !c.ended && !c.closed
}

func (c *polled) stale() bool { return !quiet(c.fd) }

func (c *polled) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stop()
	if c.closed {
		return net.ErrClosed
	}
	c.closed = true
	return os.NewSyscallError("close", unix.Close(c.fd))
}
