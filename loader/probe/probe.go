// SPDX-License-Identifier: Apache-2.0

// Package probe finds out which features that the product uses the running kernel has. Internal to
// this project. Tests can deny features: they are then missing for callers of probe, and for code
// that uses them without probing (Denied).
package probe

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/features"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/loader/pacer"
)

// Feature is one feature of the kernel.
type Feature struct {
	Name     string `json:"name"`
	Have     bool   `json:"have"`
	Required bool   `json:"required"`
	Since    string `json:"since"`            // first Linux release with the feature
	Why      string `json:"why"`              // what it is used for
	Detail   string `json:"detail,omitempty"` // error of the kernel, if the feature is missing
}

// Names of features that other packages use.
const (
	NativeXDP = "native XDP" // depends on the driver: not in Kernel
	XDPFrags  = "native XDP of several buffers"
	TCX       = "TCX links"
	Clsact    = "clsact qdisc"
	Fq        = "fq qdisc"
	Htb       = "htb qdisc"
	BPFFS     = "bpf file system"
	TAI       = "bpf_ktime_get_tai_ns"
)

type kernelProbe struct {
	Feature
	ask func() error
}

var kernel = []kernelProbe{
	{Feature{Name: "XDP programs", Required: true, Since: "4.8", Why: "the ingress data plane"},
		func() error { return features.HaveProgramType(ebpf.XDP) }},
	{Feature{Name: "bpf_xdp_load_bytes", Required: true, Since: "5.18", Why: "frames of several buffers (xdp.frags, jumbo MTU)"},
		func() error { return features.HaveProgramHelper(ebpf.XDP, asm.FnXdpLoadBytes) }},
	{Feature{Name: "bpf_skb_set_tstamp", Required: true, Since: "5.18", Why: "departure times for the edt pacer"},
		func() error { return features.HaveProgramHelper(ebpf.SchedCLS, asm.FnSkbSetTstamp) }},
	{Feature{Name: "BTF", Required: true, Since: "5.6", Why: "functions of the data plane, and field names in bpftool"},
		haveBTF},
	{Feature{Name: "ring buffer", Required: true, Since: "5.8", Why: "events from the data plane"},
		func() error { return features.HaveMapType(ebpf.RingBuf) }},
	{Feature{Name: "queue map", Required: true, Since: "4.20", Why: "the list of active destinations"},
		func() error { return features.HaveMapType(ebpf.Queue) }},
	{Feature{Name: "XSK map", Required: true, Since: "4.18", Why: "steering packets to the engine"},
		func() error { return features.HaveMapType(ebpf.XSKMap) }},
	{Feature{Name: BPFFS, Required: true, Since: "4.4", Why: "pins, by which everything outlives the agent"},
		haveBPFFS},
	{Feature{Name: TAI, Since: "6.1", Why: "stamps on CLOCK_TAI (--clock tai)"},
		func() error { return features.HaveProgramHelper(ebpf.XDP, asm.FnKtimeGetTaiNs) }},
	{Feature{Name: TCX, Since: "6.6", Why: "the egress data plane; clsact serves below"}, haveTCX},
}

// Kernel probes the running kernel. It needs CAP_BPF.
func Kernel() []Feature {
	var out []Feature
	for _, p := range kernel {
		f := p.Feature
		err := Denied(f.Name)
		if err == nil {
			err = p.ask()
		}
		if f.Have = err == nil; !f.Have {
			f.Detail = err.Error()
		}
		out = append(out, f)
	}
	return out
}

// Have reports whether the list has the feature of that name as present.
func Have(list []Feature, name string) bool {
	return slices.ContainsFunc(list, func(f Feature) bool { return f.Name == name && f.Have })
}

// Missing returns an error that names every required feature that is missing.
func Missing(have []Feature) error {
	var errs []error
	for _, f := range have {
		if f.Required && !f.Have {
			errs = append(errs, fmt.Errorf("this kernel lacks %s (Linux %s and later): needed for %s", f.Name, f.Since, f.Why))
		}
	}
	return errors.Join(errs...)
}

// haveBTF loads a type and the function that uses it, as the data plane's objects do.
func haveBTF() error {
	b, err := btf.NewBuilder([]btf.Type{&btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}}, nil)
	if err != nil {
		return err
	}
	h, err := btf.NewHandle(b)
	if err != nil {
		return err
	}
	return h.Close()
}

// haveBPFFS asks whether the kernel could mount one, which attach does if need be.
func haveBPFFS() error {
	known, err := os.ReadFile("/proc/filesystems")
	if err != nil {
		return err
	}
	if !slices.Contains(strings.Fields(string(known)), "bpf") {
		return unix.ENODEV
	}
	return nil
}

// haveTCX tries to attach to an interface that does not exist: a kernel with TCX returns
// ENODEV, an older one does not know the request.
func haveTCX() error {
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.SchedCLS, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
	})
	if err != nil {
		return err
	}
	defer p.Close()
	l, err := link.AttachTCX(link.TCXOptions{Interface: 1 << 30, Program: p, Attach: ebpf.AttachTCXEgress})
	if err == nil {
		l.Close()
		return nil
	}
	if errors.Is(err, unix.ENODEV) {
		return nil
	}
	return err
}

// denials are the errors of a kernel without the feature.
var denials = map[string]error{
	NativeXDP: unix.EOPNOTSUPP, XDPFrags: unix.EOPNOTSUPP, TCX: ebpf.ErrNotSupported,
	Clsact: unix.ENOENT, Fq: unix.ENOENT, Htb: unix.ENOENT, BPFFS: unix.ENODEV,
}

var denied []string

// Deny makes features missing in this process, for tests.
func Deny(names ...string) error {
	for _, n := range names {
		if denials[n] == nil && !slices.ContainsFunc(kernel, func(p kernelProbe) bool { return p.Name == n }) {
			return fmt.Errorf("no feature %q", n)
		}
	}
	denied = names
	pacer.Miss("fq", Denied(Fq))
	pacer.Miss("htb", Denied(Htb))
	return nil
}

// Denied returns the error of a kernel without the feature if a test denies it, else nil.
func Denied(name string) error {
	if !slices.Contains(denied, name) {
		return nil
	}
	if err := denials[name]; err != nil {
		return err
	}
	return ebpf.ErrNotSupported
}
