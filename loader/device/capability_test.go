// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/loader/device"
	"github.com/softroce/softroce-xdp/rocev2/rdma/client"
	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/require"
)

// capableChild prints whether it may use a controlled Q_Key, and whether it may read the status.
func capableChild(dir string, _ *bufio.Scanner) error {
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	defer cancel()
	d, err := client.Open(ctx, "lo", client.Config{RunDir: dir, ArenaBytes: 1 << 20})
	if err != nil {
		return err
	}
	defer d.Close()
	pd, err := d.AllocPD()
	if err != nil {
		return err
	}
	cq, err := d.CreateCQ(4)
	if err != nil {
		return err
	}
	qp, err := pd.CreateQP(verbs.QPInit{Type: verbs.UD, SendCQ: cq, RecvCQ: cq, MaxSend: 1, MaxRecv: 1})
	if err != nil {
		return err
	}
	a := verbs.DefaultAttr()
	a.State, a.QKey = verbs.StateInit, 0x80010000
	keyErr := qp.Modify(a, verbs.RequiredMask(verbs.UD, verbs.StateInit))
	_, statusErr := device.ReadStatus(ctx, proto.SocketPath(dir, "lo"))
	fmt.Println("may", keyErr == nil, statusErr == nil)
	return nil
}

// Controlled Q_Keys take CAP_NET_RAW, and the status of all processes takes CAP_NET_ADMIN, whatever the user ID is.
func TestCapabilities(t *testing.T) {
	require.Root(t)
	require.Command(t, "setpriv")
	_, dir := serve(t, device.Config{Mode: 0o666})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	user := func(ambient ...uintptr) *syscall.SysProcAttr {
		return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 54321, Gid: 54321}, AmbientCaps: ambient}
	}
	for _, x := range []struct {
		who  string
		drop string // capabilities that root is without
		attr *syscall.SysProcAttr
		want string
	}{
		{"root", "", nil, "true true"},
		{"root without CAP_NET_RAW", "-net_raw", nil, "false true"},
		{"root without CAP_NET_ADMIN", "-net_admin", nil, "true false"},
		{"root without capabilities", "-all", nil, "false false"},
		{"a user", "", user(), "false false"},
		{"a user with CAP_NET_RAW", "", user(unix.CAP_NET_RAW), "true false"},
		{"a user with CAP_NET_ADMIN", "", user(unix.CAP_NET_ADMIN), "false true"},
	} {
		cmd := exec.Command("/proc/self/exe") // the name may be out of an unprivileged process's reach
		if x.drop != "" {
			cmd = exec.Command("setpriv", "--inh-caps", x.drop, "--bounding-set", x.drop, self)
		}
		cmd.Env = append(os.Environ(), childRole+"=capable", childDir+"="+dir)
		cmd.SysProcAttr, cmd.Stderr = x.attr, os.Stderr
		if got := run(t, cmd).line("may "); got != x.want {
			t.Errorf("%s: Q_Key and status %s, want %s", x.who, got, x.want)
		}
	}
}
