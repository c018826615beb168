//go:build !linux

package client

import "net"

// kernelClock is nothing here: these systems give no receive time that is on a known scale.
type kernelClock struct{}

func newKernelClock(_, _ func() int64) (*kernelClock, func()) { return nil, func() {} }

func (*kernelClock) fresh() int64 { return 0 }

func (*kernelClock) stamped(net.Conn) source { return nil }
