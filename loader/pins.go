// SPDX-License-Identifier: Apache-2.0

package loader

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// DefaultPinRoot is where every attached interface has a directory of pins.
const DefaultPinRoot = "/sys/fs/bpf/softroce-xdp"

// Names of the pins in an interface's directory. Maps are pinned by their own names.
const (
	pinIngressLink = "link_ingress"
	pinEgressLink  = "link_egress"
	pinAgentCall   = "prog_agent_call"
	pinEngineSync  = "prog_engine_sync"
	pinIngressProg = "prog_ingress" // for a repair
	pinEgressProg  = "prog_egress"  // for a repair
	pinRunDir      = "run_dir"      // a symbolic link to the run directory of the attachment
)

// escapeName returns the file name of an interface: bpffs refuses dots ("eth0.100"), which
// become %2E; % becomes %25.
func escapeName(ifname string) string { return escapes.Replace(ifname) }

var escapes = strings.NewReplacer("%", "%25", ".", "%2E")

func unescapeName(file string) string {
	return strings.NewReplacer("%2E", ".", "%25", "%").Replace(file)
}

// PinDir returns the directory of an interface's pins.
func PinDir(root, ifname string) string { return filepath.Join(root, escapeName(ifname)) }

// linkRunDir records the run directory of the attachment next to its pins.
func linkRunDir(dir, runDir string) error {
	path, err := filepath.Abs(runDir)
	if err == nil {
		err = os.Symlink(path, filepath.Join(dir, pinRunDir))
	}
	if err != nil {
		return fmt.Errorf("record the run directory: %w", err)
	}
	return nil
}

// checkRunDir refuses a run directory other than that of the attachment. State, locks and agent
// of the attachment would not be found there: a detach would leave the agent without pins.
func checkRunDir(ifname string, o Options) error {
	of, err := os.Readlink(filepath.Join(PinDir(o.PinRoot, ifname), pinRunDir))
	if err != nil {
		return nil // not attached, or by a version that did not record it
	}
	if path, err := filepath.Abs(o.RunDir); err == nil && path == of {
		return nil
	}
	theirs, err := os.Stat(of)
	ours, err2 := os.Stat(o.RunDir)
	if err == nil && err2 == nil && os.SameFile(theirs, ours) {
		return nil
	}
	return fmt.Errorf("%s: attached with --run-dir %s, not %s: name that one", ifname, of, o.RunDir)
}

// checkPinRoot refuses a run directory that has the state of an interface of this name under
// another pin root: agents, locks and states of both would be mixed up.
func checkPinRoot(ifname string, o Options) error {
	s, err := ReadState(o.RunDir, ifname)
	theirs := PinDir(s.PinRoot, ifname)
	if err != nil || s.PinRoot == "" || theirs == PinDir(o.PinRoot, ifname) || !exists(theirs) {
		return nil // there is no such state, or it is left over
	}
	return fmt.Errorf("%s: %s has the state of an attachment with --pin-root %s: use another --run-dir", ifname, o.RunDir, s.PinRoot)
}

// Pinned lists the interfaces that have a pin directory under root.
func Pinned(root string) ([]string, error) {
	entries, err := os.ReadDir(root)
	if errors.Is(err, os.ErrNotExist) {
		return nil, checkHidden(root)
	}
	if err != nil {
		return nil, fmt.Errorf("list pins: %w", err)
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, unescapeName(e.Name()))
		}
	}
	return names, nil
}

// ensureBPFFS checks that root is on a bpf file system. If root is below /sys/fs/bpf and none
// is mounted there, it mounts one.
func ensureBPFFS(root string) error {
	if onBPFFS(root) {
		return nil
	}
	if err := checkHidden(root); err != nil {
		return err
	}
	const mountPoint = "/sys/fs/bpf"
	if root == mountPoint || strings.HasPrefix(root, mountPoint+"/") {
		err := unix.Mount("bpf", mountPoint, "bpf", 0, "mode=0700")
		if err == nil {
			return nil
		}
		return fmt.Errorf("no bpf file system at %s and mounting one failed (%w): run `mount -t bpf bpf %s` as root", mountPoint, err, mountPoint)
	}
	return fmt.Errorf("pin root %s is not on a bpf file system: mount one there (`mount -t bpf bpf DIR`) or use a directory below %s", root, mountPoint)
}

// removePins removes all pins of a directory, and the directory. The kernel frees the pinned
// objects with their last reference.
func removePins(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove pins: %w", err)
	}
	var errs []error
	for _, e := range entries {
		errs = append(errs, os.Remove(filepath.Join(dir, e.Name())))
	}
	errs = append(errs, os.Remove(dir))
	_ = os.Remove(filepath.Dir(dir)) // the root too, if this was the last
	return errors.Join(errs...)
}
