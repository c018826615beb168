//go:build !linux

package hardware

import (
	"errors"
	"os"
)

func dropPages(*os.File) error { return errors.New("no way to drop pages here") }
