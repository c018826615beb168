//go:build !linux

package client

import "net"

// poller is nothing here: without the kernel's stamps a read must not wait.
type poller struct{}

func newPoller(*kernelClock) *poller { return nil }

func (*poller) close() {}

func (*poller) link(net.Conn) link { return nil }
