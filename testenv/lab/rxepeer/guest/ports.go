// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/testenv/lab/rxepeer/internal/agent"
)

// openPort finds the agent's virtio-serial port by its name and opens it.
func openPort(wait time.Duration) (*os.File, error) {
	dev, err := findPort(agent.PortName, wait)
	if err != nil {
		return nil, err
	}
	return os.OpenFile(dev, os.O_RDWR|unix.O_NONBLOCK, 0)
}

// linkPorts gives the machine's further ports the names that programs look for, in the folder where
// udev would put them. The emulator numbers the ports.
func linkPorts(names []string) error {
	if err := os.MkdirAll(agent.PortDir, 0o755); err != nil {
		return err
	}
	for i, name := range names {
		dev, err := findPort(agent.FurtherPort(i), patience)
		if err != nil {
			return err
		}
		if err := os.Symlink(dev, filepath.Join(agent.PortDir, name)); err != nil {
			return err
		}
	}
	return nil
}

// findPort returns the device of a virtio-serial port.
func findPort(port string, wait time.Duration) (string, error) {
	for deadline := time.Now().Add(wait); ; time.Sleep(20 * time.Millisecond) {
		names, err := filepath.Glob("/sys/class/virtio-ports/*/name")
		if err != nil {
			return "", err
		}
		for _, name := range names {
			if b, err := os.ReadFile(name); err == nil && strings.TrimSpace(string(b)) == port {
				return "/dev/" + filepath.Base(filepath.Dir(name)), nil
			}
		}
		if time.Now().After(deadline) {
			return "", fmt.Errorf("no virtio-serial port named %s", port)
		}
	}
}
