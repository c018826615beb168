//go:build !linux

package simengine

func prefer() {}
