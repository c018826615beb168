package command

import "flow/builtins/owner"

func alive(pid int) bool { return owner.Find(pid).PID != 0 }
