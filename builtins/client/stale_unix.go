//go:build unix

package client

import (
	"net"
	"syscall"
)

// stale reports that an idle connection has ended, or has bytes that nobody asked for.
func stale(conn net.Conn) bool {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return false
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return true
	}
	still := false
	err = raw.Read(func(fd uintptr) bool {
		still = quiet(int(fd))
		return true
	})
	return err != nil || !still
}

// quiet says of a socket that it is open and has nothing to read.
func quiet(fd int) bool {
	var b [1]byte
	_, _, err := syscall.Recvfrom(fd, b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	return err == syscall.EAGAIN || err == syscall.EWOULDBLOCK
}
