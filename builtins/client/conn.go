package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"flow/starlark/diag"
)

// readSize is the most that one read of a socket takes. A frame has a few hundred bytes; a larger buffer
// only delays nothing and merges nothing, because a read returns what is there.
const readSize = 64 << 10

// stamp is when bytes arrived, in nanoseconds on the client's clock, and who says so.
type stamp struct {
	ns     int64
	kernel bool
}

// source is a socket whose reads are stamped.
type source interface {
	net.Conn
	// readStamped is Read, with the arrival of its last byte.
	readStamped(b []byte) (int, stamp, error)
}

// userStamped stamps after the read: what every system can do.
type userStamped struct {
	net.Conn
	clock func() int64
}

func (s userStamped) readStamped(b []byte) (int, stamp, error) {
	n, err := s.Read(b)
	return n, stamp{ns: s.clock()}, err
}

// overTLS reads plain text through a TLS session and gives it the stamp of the last read of the socket
// below: the record is whole only then.
type overTLS struct {
	*tls.Conn
	below *lastStamp
}

func (s overTLS) readStamped(b []byte) (int, stamp, error) {
	n, err := s.Read(b)
	return n, s.below.last, err
}

// lastStamp remembers the stamp of its last read, for what is stacked on it.
type lastStamp struct {
	source
	last stamp
}

func (s *lastStamp) Read(b []byte) (int, error) {
	n, at, err := s.readStamped(b)
	s.last = at
	return n, err
}

// link is a connection as an exchange uses it.
type link interface {
	// send writes all of b, or gives up with errUnread. began is when the last piece of it began to be
	// written, and early says that there was something to read by then: nothing was answered before.
	send(b []byte, now func() int64) (began int64, early bool, err error)
	// deliver hands every read to take until take has had enough, which it has after an error.
	deliver(take func(b []byte, at stamp, err error) taken)
	// cut ends what waits on the link with an error, now and from now on; cutIn does so in a while.
	cut()
	cutIn(d time.Duration)
	// rest ends an exchange: false is a link that cannot have another.
	rest() bool
	// stale says of a resting link that it has ended, or has bytes that nobody asked for.
	stale() bool
	Close() error
}

// taken is what was made of a read.
type taken struct {
	over   bool
	frames int // frames with content that it brought to their end
}

// errUnread is a server that has answered, or hung up, and reads no more of a long request.
var errUnread = errors.New("the server reads no more of it")

// unreadWait is how long a server that has something to say may take to read on.
const unreadWait = 500 * time.Millisecond

// unsure is how far apart two readings of the clocks' offset may be, on a machine that was busy meanwhile: ns.
const unsure = 50_000

// wire is a link that may have been used before.
type wire struct {
	link
	reused bool
}

// socket is a link that the exchange's own goroutine reads.
type socket struct {
	source
	tcp   net.Conn // below everything
	buf   []byte
	ahead *ahead // the first read, begun while a long request was written
}

// ahead is a read that another goroutine does.
type ahead struct {
	done chan struct{}
	n    int
	at   stamp
	err  error
}

// pieceSize is what is written at once of a long request.
const pieceSize = 64 << 10

// send reads while it writes a long request: a server that refuses it may never read the rest. TLS allows no
// look at the socket instead, for what comes there need not be an answer.
func (s *socket) send(b []byte, now func() int64) (began int64, early bool, err error) {
	var pieces atomic.Int64
	if len(b) > pieceSize {
		a, sent := &ahead{done: make(chan struct{})}, make(chan struct{})
		defer close(sent)
		s.ahead = a
		go func() {
			a.n, a.at, a.err = s.readStamped(s.buf)
			close(a.done)
			for before := int64(-1); ; {
				select {
				case <-sent:
					return
				case <-time.After(unreadWait):
				}
				if now := pieces.Load(); now != before {
					before = now
					continue
				}
				_ = s.SetWriteDeadline(time.Unix(1, 0))
				return
			}
		}()
	}
	for {
		n := min(len(b), pieceSize)
		began, early = now(), s.hasRead()
		if _, err = s.Write(b[:n]); err != nil && s.hasRead() && errors.Is(err, os.ErrDeadlineExceeded) {
			err = errUnread
		}
		if err != nil || n == len(b) {
			return began, early, err
		}
		pieces.Add(1)
		b = b[n:]
	}
}

// hasRead says that the read ahead is over.
func (s *socket) hasRead() bool {
	if s.ahead == nil {
		return false
	}
	select {
	case <-s.ahead.done:
		return true
	default:
		return false
	}
}

func (s *socket) deliver(take func(b []byte, at stamp, err error) taken) {
	if a := s.ahead; a != nil {
		<-a.done
		s.ahead = nil
		if take(s.buf[:a.n], a.at, a.err).over {
			return
		}
	}
	for {
		n, at, err := s.readStamped(s.buf)
		if take(s.buf[:n], at, err).over {
			return
		}
	}
}

func (s *socket) cut()                  { _ = s.SetDeadline(time.Unix(1, 0)) }
func (s *socket) cutIn(d time.Duration) { _ = s.SetReadDeadline(time.Now().Add(d)) }
func (s *socket) rest() bool            { return s.SetDeadline(time.Time{}) == nil }
func (s *socket) stale() bool           { return stale(s.tcp) }

// pool keeps the connections whose last answer ended properly.
type pool struct {
	mu   sync.Mutex
	idle []*wire
	shut bool
}

// take gives the connection that was used last and is still open, or nil.
func (p *pool) take() *wire {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.idle) > 0 {
		w := p.idle[len(p.idle)-1]
		p.idle = p.idle[:len(p.idle)-1]
		if w.stale() {
			_ = w.Close()
			continue
		}
		w.reused = true
		return w
	}
	return nil
}

func (p *pool) put(w *wire) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shut || !w.rest() {
		_ = w.Close()
		return
	}
	p.idle = append(p.idle, w)
}

func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shut = true
	for _, w := range p.idle {
		_ = w.Close()
	}
	p.idle = nil
}

// dial opens a connection to the server at base.
func (c *Client) dial(ctx context.Context, base *url.URL) (*wire, error) {
	port := base.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[base.Scheme]
	}
	d := net.Dialer{Timeout: 10 * time.Second}
	conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort(base.Hostname(), port))
	if err != nil {
		return nil, err
	}
	if base.Scheme == "http" {
		if l := c.poller.link(conn); l != nil {
			return &wire{link: l}, nil
		}
	}
	src := c.kernel.stamped(conn)
	if src == nil {
		src = userStamped{conn, c.o.Now}
	}
	if base.Scheme == "https" {
		below := &lastStamp{source: src}
		session := tls.Client(below, &tls.Config{ServerName: base.Hostname(), NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12})
		if err := session.HandshakeContext(ctx); err != nil {
			_ = conn.Close()
			return nil, err
		}
		src = overTLS{session, below}
	}
	return &wire{link: &socket{source: src, tcp: conn, buf: make([]byte, readSize)}}, nil
}

// base is the server's address.
func (o Options) base() (*url.URL, error) {
	u, err := url.Parse(o.BaseURL)
	if err == nil && (u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "") {
		err = fmt.Errorf("want http://HOST:PORT")
	}
	if err != nil {
		return nil, &diag.Error{Kind: diag.Workflow, Op: "request", Msg: fmt.Sprintf("got URL %q", o.BaseURL), Fix: `url = "http://127.0.0.1:8080"`, Err: err}
	}
	return u, nil
}
