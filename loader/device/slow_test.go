// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/loader/device"
	"github.com/softroce/softroce-xdp/rocev2/mr/clientmem"
	"github.com/softroce/softroce-xdp/rocev2/rdma/client"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/faults"
	"github.com/softroce/softroce-xdp/testenv/lab/require"
)

const (
	slowUser = 54322 // user of the slow process and of its file system
	slowPage = 4096

	// heldEnv has a second process serve the file system, which outlives the first one.
	heldEnv = "SRD_TEST_HELD"
	// heldByOther has the file system be another user's, as a user namespace allows.
	heldByOther = "other user"
)

// slowChild registers memory, maps a file that an access waits for in its place, and has the engine
// send from there. It says nothing more if that succeeds.
func slowChild(dir string, in *bufio.Scanner) error {
	mounter := slowUser
	if os.Getenv(heldEnv) == heldByOther {
		mounter++
	}
	stall, dev, err := faults.MapStalled(mounter, slowPage)
	if err != nil {
		return err
	}
	if os.Getenv(heldEnv) != "" {
		own, err := unix.FcntlInt(uintptr(dev), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return err
		}
		fuse := os.NewFile(uintptr(own), "fuse")
		defer fuse.Close()
		holder := exec.Command(os.Args[0])
		holder.Env = append(os.Environ(), childRole+"=holder")
		holder.Stdin, holder.ExtraFiles = os.Stdin, []*os.File{fuse}
		if err := holder.Start(); err != nil {
			return err
		}
	}
	if err := syscall.Setresuid(slowUser, slowUser, slowUser); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0); err != nil { // or /proc/self/mem is root's
		return err
	}
	d, err := client.Open(context.Background(), "lo", client.Config{RunDir: dir})
	if err != nil {
		return err
	}
	if err := sendFrom(d, stall); err != nil {
		return err
	}
	fmt.Println("posted")
	select {}
}

// fuseChild has a file system of the same user, and does not use the device.
func fuseChild(_ string, in *bufio.Scanner) error {
	if _, _, err := faults.MapStalled(slowUser, slowPage); err != nil {
		return err
	}
	fmt.Println("mapped")
	in.Scan()
	return nil
}

// holderChild keeps descriptors open until its parent's parent lets go.
func holderChild(string, *bufio.Scanner) error {
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// sendFrom posts a send from where the pages of stall then are.
func sendFrom(d *client.Device, stall []byte) error {
	pd, err := d.AllocPD()
	if err != nil {
		return err
	}
	cq, err := d.CreateCQ(4)
	if err != nil {
		return err
	}
	b, err := unix.Mmap(-1, 0, slowPage, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return err
	}
	mr, err := pd.RegMR(b, allRights)
	if err != nil {
		return err
	}
	qp, err := pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, MaxSend: 1, MaxRecv: 1})
	if err != nil {
		return err
	}
	self := verbs.Endpoint{Addr: here, QPN: qp.QPN()}
	if err := verbs.Connect(qp, self, self, verbs.DefaultAttr()); err != nil {
		return err
	}
	from, to := unsafe.Pointer(&stall[0]), unsafe.Pointer(&b[0])
	if _, err := unix.MremapPtr(from, slowPage, to, slowPage, unix.MREMAP_MAYMOVE|unix.MREMAP_FIXED); err != nil {
		return err
	}
	sgl := []verbs.SGE{{Addr: mr.VA(), Len: 8, LKey: mr.LKey()}}
	return qp.PostSend(&verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Signaled, SGL: sgl})
}

// A process whose memory makes the engine wait is killed. If another process keeps the engine
// waiting, the file system that is mapped is ended. Both times others go on, also another file system of the
// same user.
func TestSlowMemory(t *testing.T) {
	needFUSE(t)
	for name, held := range slowMemories {
		t.Run(name, func(t *testing.T) {
			s, dir := serve(t, device.Config{Mode: 0o666})
			if err := os.Chmod(dir, 0o711); err != nil {
				t.Fatal(err)
			}
			fuse := startWith(t, "fuse", dir, &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS})
			fuse.line("mapped")
			other := slowUsersSystems(t)
			endSlow(t, dir, held)
			testkit.Eventually(t, "the processes have ended", func() bool { return len(s.Status().Processes) == bystanders })
			testkit.Eventually(t, "the file systems end", func() bool { return len(slowUsersSystems(t)) <= len(other) })
			if left := slowUsersSystems(t); len(other) != 1 || !slices.Equal(left, other) {
				t.Errorf("the file systems of the user are %v, before: %v", left, other)
			}
		})
	}
}

// slowUsersSystems are the numbers of the file systems of slowUser.
func slowUsersSystems(t *testing.T) (devices []uint64) {
	t.Helper()
	all, err := clientmem.FileSystems(clientmem.FUSEControl)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if f.User == slowUser {
			devices = append(devices, f.Device)
		}
	}
	return devices
}

// slowMemories are the values of heldEnv.
var slowMemories = map[string]string{"served by the process": "", "served by another process": "1", "of another user": heldByOther}

// bystanders is the number of processes that go on in endSlow.
const bystanders = 2

// endSlow has a process with slow memory be killed, while another one goes on.
func endSlow(t *testing.T, dir, held string) {
	t.Helper()
	other := newBystander(t, dir)
	p := startWith(t, "slow", dir, &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}, heldEnv+"="+held)
	p.line("posted")
	p.silent()
	other.works(t) // before Wait, which closes the input that a second process has too
	p.killed()
	other.works(t)
}

// needFUSE mounts the control file system of FUSE where systemd has it.
func needFUSE(t *testing.T) {
	t.Helper()
	require.Root(t)
	if _, err := os.Stat("/dev/fuse"); err != nil {
		require.Skip(t, "needs FUSE: "+err.Error())
	}
	if _, err := clientmem.FileSystems(clientmem.FUSEControl); err != nil {
		if err := unix.Mount("fusectl", clientmem.FUSEControl, "fusectl", 0, ""); err != nil {
			require.Skip(t, "needs FUSE: "+err.Error())
		}
		t.Cleanup(func() { _ = unix.Unmount(clientmem.FUSEControl, unix.MNT_DETACH) })
	}
}

// silent waits until the process has closed its output.
func (p *process) silent() {
	p.t.Helper()
	select {
	case l, more := <-p.lines:
		if more {
			p.t.Fatalf("the process said %q", l)
		}
	case <-time.After(testkit.Patience):
		p.t.Fatal("the process was not killed")
	}
}

// killed waits for the end of the process, which must be by SIGKILL.
func (p *process) killed() {
	p.t.Helper()
	_ = p.cmd.Wait()
	if s, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || s.Signal() != unix.SIGKILL {
		p.t.Fatalf("the process ended: %s", p.cmd.ProcessState)
	}
}
