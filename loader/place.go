// SPDX-License-Identifier: Apache-2.0

package loader

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// place is the location of the interface of a pin directory.
type place int

const (
	gone      place = iota // deleted, or the attach was interrupted
	here                   // in this network namespace
	elsewhere              // in another network namespace
)

// ErrElsewhere: the interface is attached in another network namespace.
var ErrElsewhere = errors.New("attached in another network namespace")

// locate finds the interface of a pin directory by interface index and program ID of the
// pinned link, because the state file may be lost and the interface may be renamed.
func locate(dir string) (place, netlink.Link) {
	l, err := link.LoadPinnedLink(filepath.Join(dir, pinIngressLink), nil)
	if err != nil {
		return gone, nil
	}
	defer l.Close()
	return locateLink(l)
}

// locateLink finds the interface of an XDP link.
func locateLink(l link.Link) (place, netlink.Link) {
	info, err := l.Info()
	if err != nil || info.XDP() == nil || info.XDP().Ifindex == 0 {
		return gone, nil
	}
	dev, err := netlink.LinkByIndex(int(info.XDP().Ifindex))
	if err != nil || dev.Attrs().Xdp == nil || dev.Attrs().Xdp.ProgId != uint32(info.Program) {
		return elsewhere, nil
	}
	return here, dev
}

// ErrLost: the interface of an attachment is no longer in this network namespace.
var ErrLost = errors.New("lost")

// Lost returns an error that wraps ErrLost and says what has become of the interface; nil if it
// is in this network namespace.
func (a *Attachment) Lost() error {
	switch where, _ := locateLink(a.ingress); where {
	case gone:
		return fmt.Errorf("%s: %w: the interface was deleted", a.State.Interface, ErrLost)
	case elsewhere:
		return fmt.Errorf("%s: %w: the interface was moved to another network namespace, and is detached there: `ip netns exec NAME ip link` finds it; attach it there, `nsenter --net=/run/netns/NAME softroce-xdp …`",
			a.State.Interface, ErrLost)
	}
	return nil
}

// RealName returns the name under which an interface is found: the name of the attachment, also
// after the interface was renamed, else the name of the interface. The argument may be an
// altname. A name without interface and attachment is returned as it is.
func RealName(name string, o Options) string {
	o = o.withDefaults()
	if exists(PinDir(o.PinRoot, name)) || exists(statePath(o.RunDir, name)) {
		return name
	}
	dev, err := netlink.LinkByName(name)
	if err != nil || exists(PinDir(o.PinRoot, dev.Attrs().Name)) {
		if err == nil {
			return dev.Attrs().Name
		}
		return name
	}
	all, _ := Pinned(o.PinRoot)
	for _, before := range all {
		if where, l := locate(PinDir(o.PinRoot, before)); where == here && l.Attrs().Index == dev.Attrs().Index {
			return before
		}
	}
	return dev.Attrs().Name
}

// CheckRenamed returns an error if the interface that was attached under the name has another name
// now.
func CheckRenamed(ifname string, o Options) error {
	dir := PinDir(o.withDefaults().PinRoot, ifname)
	if where, dev := locate(dir); where == here {
		return checkRenamed(ifname, dir, dev)
	}
	return nil
}

func checkRenamed(ifname, dir string, dev netlink.Link) error {
	now := dev.Attrs().Name
	if now == ifname {
		return nil
	}
	if _, err := netlink.LinkByName(ifname); err == nil {
		return fmt.Errorf("%s: the pins at %s belong to %s, which had that name when it was attached: run `softroce-xdp detach %s` first", ifname, dir, now, ifname)
	}
	return fmt.Errorf("%s is called %s now: give it its name back, or run `softroce-xdp detach %s` and attach %s", ifname, now, ifname, now)
}

// IsAttached reports whether the interface of that name is attached here.
func IsAttached(ifname string, o Options) bool {
	where, _ := locate(PinDir(o.withDefaults().PinRoot, ifname))
	return where == here
}

// NameNow returns the present name of an attached interface; "" if it was deleted or is in
// another network namespace.
func (a *Attachment) NameNow() string {
	if where, dev := locate(a.Dir); where == here {
		return dev.Attrs().Name
	}
	return ""
}

// CheckHere returns an error if the interface of that name is attached in another network
// namespace. The error wraps ErrElsewhere and names that namespace.
func CheckHere(ifname string, o Options) error {
	o = o.withDefaults()
	if where, _ := locate(PinDir(o.PinRoot, ifname)); where != elsewhere {
		return nil
	}
	return elsewhereError(ifname, o)
}

func elsewhereError(ifname string, o Options) error {
	s, _ := ReadState(o.RunDir, ifname)
	if s.Netns == NetnsInode() {
		return fmt.Errorf("%s: %w: it was moved there from here; `ip netns exec NAME ip link` finds it; run this there, `nsenter --net=/run/netns/NAME softroce-xdp …`",
			ifname, ErrElsewhere)
	}
	path := "/run/netns/NAME"
	named, _ := filepath.Glob("/run/netns/*")
	for _, p := range append(named, fmt.Sprintf("/proc/%d/ns/net", s.AgentPID)) {
		if s.Netns != 0 && netnsInode(p) == s.Netns {
			path = p
			break
		}
	}
	return fmt.Errorf("%s: %w (inode %d): run this there, `nsenter --net=%s softroce-xdp …`", ifname, ErrElsewhere, s.Netns, path)
}

// Attached lists the interfaces that have a pin directory. ours are in this network namespace
// or were deleted; others are in other network namespaces.
func Attached(o Options) (ours, others []string, err error) {
	o = o.withDefaults()
	all, err := Pinned(o.PinRoot)
	for _, name := range all {
		if where, _ := locate(PinDir(o.PinRoot, name)); where == elsewhere {
			others = append(others, name)
		} else {
			ours = append(ours, name)
		}
	}
	return ours, others, err
}

// NetnsInode returns the inode of the calling thread's network namespace, which identifies it.
func NetnsInode() uint64 { return netnsInode("/proc/thread-self/ns/net") }

func netnsInode(path string) uint64 {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return 0
	}
	return st.Ino
}

// notAttached returns why there is no pin directory: ErrNotAttached, ErrStray, or the bpf file
// system is hidden.
func notAttached(ifname string, o Options) error {
	if err := checkHidden(o.PinRoot); err != nil {
		return err
	}
	if stray := strayAt(ifname); stray != nil {
		return stray.explain(o)
	}
	if s, err := ReadState(o.RunDir, ifname); err == nil && s.Lost != "" {
		return fmt.Errorf("%s: %w: %s", ifname, ErrNotAttached, s.Lost)
	}
	return fmt.Errorf("%s: %w", ifname, ErrNotAttached)
}

// checkHidden returns an error if root does not lie on a bpf file system because this is
// `ip netns exec`, which mounts a /sys of its own, named after the network namespace.
func checkHidden(root string) error {
	if onBPFFS(root) {
		return nil
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil // unknown: the caller reports what is missing
	}
	if name := sysOf(string(mounts)); name != "" {
		return fmt.Errorf("the bpf file system of %s is hidden here by `ip netns exec %s`: use `nsenter --net=%s softroce-xdp …`",
			root, name, filepath.Join(netnsDir, name))
	}
	return nil
}

// netnsDir is where `ip netns` names network namespaces.
const netnsDir = "/run/netns"

// sysOf returns the network namespace that the topmost sysfs on /sys is named after, or "".
// A line of mountinfo is: numbers, root, mount point, options, "-", type, source, options
// (proc_pid_mountinfo(5)).
func sysOf(mounts string) (name string) {
	for line := range strings.Lines(mounts) {
		mount, fs, _ := strings.Cut(line, " - ")
		at, what := strings.Fields(mount), strings.Fields(fs)
		if len(at) > 4 && at[4] == "/sys" && len(what) > 1 && what[0] == "sysfs" {
			name = what[1]
		}
	}
	if _, err := os.Stat(filepath.Join(netnsDir, name)); name == "" || err != nil {
		return ""
	}
	return name
}

func onBPFFS(dir string) bool {
	var fs unix.Statfs_t
	return unix.Statfs(existing(dir), &fs) == nil && fs.Type == unix.BPF_FS_MAGIC
}

// existing returns the directory, or its nearest parent that exists.
func existing(dir string) string {
	for {
		if _, err := os.Stat(dir); err == nil || dir == filepath.Dir(dir) {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}
