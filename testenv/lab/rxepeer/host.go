// SPDX-License-Identifier: Apache-2.0

package rxepeer

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// tool is a program of the host that we start, and the package it comes in.
type tool struct{ name, pkg string }

var (
	bootTools  = []tool{{"go", "golang"}}
	buildTools = []tool{
		{"apt-get", "apt"}, {"apt-cache", "apt"}, {"apt-config", "apt"}, {"dpkg-deb", "dpkg"},
		{"depmod", "kmod"}, {"xz", "xz-utils"},
	}
)

// CheckHost reports everything that this host lacks for building images and
// booting machines, in one error that says what to install. A test skips with it.
func CheckHost() error {
	var lacks []string
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		lacks = append(lacks, "an amd64 Linux host (this is "+runtime.GOOS+"/"+runtime.GOARCH+")")
	}
	if os.Geteuid() != 0 {
		lacks = append(lacks, "root (run with sudo)")
	}
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		lacks = append(lacks, "/dev/net/tun (modprobe tun)")
	}
	if err := needTools(append(bootTools, buildTools...)); err != nil {
		lacks = append(lacks, err.Error())
	}
	if len(lacks) > 0 {
		return fmt.Errorf("rxepeer: this host lacks %s", strings.Join(lacks, "; "))
	}
	return nil
}

func needTools(tools []tool) error {
	var names, pkgs []string
	for _, t := range tools {
		if _, err := exec.LookPath(t.name); err != nil {
			names = append(names, t.name)
			pkgs = append(pkgs, t.pkg)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("%s (apt-get install %s)", strings.Join(names, ", "), strings.Join(pkgs, " "))
}
