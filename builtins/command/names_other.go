//go:build !linux

package command

import (
	"fmt"
	"syscall"
)

// names says whether a process group has members; which is not asked here.
func names(pgid int) []string {
	if syscall.Kill(-pgid, 0) != nil {
		return nil
	}
	return []string{fmt.Sprintf("process group %d", pgid)}
}
