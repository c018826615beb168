//go:build !linux

package db

import "errors"

func mountTmpfs(string, int) error { return errors.ErrUnsupported }

func unmount(string) error { return nil }
