// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/rocev2/rdma/client"
	"github.com/softroce/softroce-xdp/testenv/lab/confine"
)

// unitFile is the unit that is installed.
const unitFile = "../../packaging/softroce-xdp@.service.in"

// serveUnderUnit starts a server with the capabilities, the system calls and the file system of the unit.
func serveUnderUnit(t *testing.T) (dir string) {
	t.Helper()
	dir = testkit.SocketDir(t)
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	startWith(t, "server", dir, nil, confine.Prepare(t, unitFile, dir)).line("serves")
	return dir
}

// The unit may end a process with slow memory, and the file systems of its user.
func TestSlowMemoryUnderTheUnit(t *testing.T) {
	needFUSE(t)
	for name, held := range slowMemories {
		t.Run(name, func(t *testing.T) { endSlow(t, serveUnderUnit(t), held) })
	}
}

// listenerChild listens at a port below 1024, and prints the error.
func listenerChild(dir string, _ *bufio.Scanner) error {
	d, err := client.Open(context.Background(), "lo", client.Config{RunDir: dir})
	if err != nil {
		return err
	}
	defer d.Close()
	s, err := d.OpenCM()
	if err != nil {
		return err
	}
	fmt.Println("listen:", s.Listen(service(80), 0))
	return nil
}

// A process of another user may listen at a port below 1024 exactly if it has the capability.
func TestPrivilegedPortsUnderTheUnit(t *testing.T) {
	dir := serveUnderUnit(t)
	const nobody = 65534
	for _, c := range []struct {
		name string
		attr syscall.SysProcAttr
		may  bool
	}{
		{"without the capability", syscall.SysProcAttr{}, false},
		{"with it", syscall.SysProcAttr{AmbientCaps: []uintptr{unix.CAP_NET_BIND_SERVICE}}, true},
		{"with it in a user namespace", syscall.SysProcAttr{
			Cloneflags: syscall.CLONE_NEWUSER, AmbientCaps: []uintptr{unix.CAP_NET_BIND_SERVICE},
			UidMappings: []syscall.SysProcIDMap{{ContainerID: nobody, HostID: nobody, Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: nobody, HostID: nobody, Size: 1}},
		}, false},
	} {
		c.attr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody, NoSetGroups: true}
		got := startWith(t, "listener", dir, &c.attr).line("listen:")
		if (got == " <nil>") != c.may {
			t.Errorf("%s: %s", c.name, got)
		}
	}
}
