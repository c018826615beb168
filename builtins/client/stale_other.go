//go:build !unix

package client

import "net"

func stale(net.Conn) bool { return false }
