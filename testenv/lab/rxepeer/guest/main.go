// SPDX-License-Identifier: Apache-2.0

// Command guest is /init of a test machine: as process 1 it starts itself once more
// as the agent, reaps orphans, and powers off when the agent is gone. The agent
// prepares the machine, sets it up as the host asks, and then serves the host.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

func main() {
	if os.Getpid() == 1 {
		runInit()
		return
	}
	if err := runAgent(); err != nil {
		fmt.Println("rxepeer agent:", err)
		os.Exit(1)
	}
}

func runInit() {
	// The agent waits for its own children, so reaping must not happen in its process.
	cmd := exec.Command("/proc/self/exe")
	if err := mountAll(); err != nil {
		fmt.Println("rxepeer init:", err)
	}
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		fmt.Println("rxepeer init: start agent:", err)
	} else {
		for {
			pid, err := syscall.Wait4(-1, nil, 0, nil)
			if errors.Is(err, syscall.EINTR) {
				continue
			}
			if err != nil || pid == cmd.Process.Pid {
				break
			}
		}
		fmt.Println("rxepeer init: the agent ended, powering off")
	}
	unix.Sync()
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}
