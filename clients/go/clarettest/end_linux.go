package clarettest

import (
	"os/exec"
	"syscall"
)

// endWithParent lets a process be killed when this one ends, in whatever way.
func endWithParent(process *exec.Cmd) {
	process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
