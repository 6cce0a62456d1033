// SPDX-License-Identifier: Apache-2.0

package loader

// This file finds out which features that the product uses the running kernel has. Tests can deny
// features: they are then missing for KernelFeatures, and for code that uses them without asking (DeniedFeature).

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
	Why      string `json:"why"`              // purpose of the feature
	Detail   string `json:"detail,omitempty"` // error of the kernel, if the feature is missing
}

// Names of features that other packages use.
const (
	FeatureNativeXDP = "native XDP" // depends on the driver: not in Kernel
	FeatureXDPFrags  = "native XDP of several buffers"
	FeatureTCX       = "TCX links"
	FeatureClsact    = "clsact qdisc"
	FeatureFq        = "fq qdisc"
	FeatureHtb       = "htb qdisc"
	FeatureBPFFS     = "bpf file system"
	FeatureTAI       = "bpf_ktime_get_tai_ns"
)

type kernelProbe struct {
	Feature
	ask func() error
}

var kernelProbes = []kernelProbe{
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
	{Feature{Name: FeatureBPFFS, Required: true, Since: "4.4", Why: "pins, by which everything outlives the agent"},
		haveBPFFS},
	{Feature{Name: FeatureTAI, Since: "6.1", Why: "stamps on CLOCK_TAI (--clock tai)"},
		func() error { return features.HaveProgramHelper(ebpf.XDP, asm.FnKtimeGetTaiNs) }},
	{Feature{Name: FeatureTCX, Since: "6.6", Why: "the egress data plane; clsact serves below"}, haveTCX},
}

// KernelFeatures probes the running kernel. It needs CAP_BPF.
func KernelFeatures() []Feature {
	var out []Feature
	for _, p := range kernelProbes {
		f := p.Feature
		err := DeniedFeature(f.Name)
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

// HaveFeature reports whether the list has the feature of that name as present.
func HaveFeature(list []Feature, name string) bool {
	return slices.ContainsFunc(list, func(f Feature) bool { return f.Name == name && f.Have })
}

// MissingFeatures returns an error that names every required feature that is missing.
func MissingFeatures(have []Feature) error {
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
	FeatureNativeXDP: unix.EOPNOTSUPP, FeatureXDPFrags: unix.EOPNOTSUPP, FeatureTCX: ebpf.ErrNotSupported,
	FeatureClsact: unix.ENOENT, FeatureFq: unix.ENOENT, FeatureHtb: unix.ENOENT, FeatureBPFFS: unix.ENODEV,
}

var deniedFeatures []string

// DenyFeatures makes features missing in this process, for tests.
func DenyFeatures(names ...string) error {
	for _, n := range names {
		if denials[n] == nil && !slices.ContainsFunc(kernelProbes, func(p kernelProbe) bool { return p.Name == n }) {
			return fmt.Errorf("no feature %q", n)
		}
	}
	deniedFeatures = names
	pacer.Miss("fq", DeniedFeature(FeatureFq))
	pacer.Miss("htb", DeniedFeature(FeatureHtb))
	return nil
}

// DeniedFeature returns the error of a kernel without the feature if a test denies it, else nil.
func DeniedFeature(name string) error {
	if !slices.Contains(deniedFeatures, name) {
		return nil
	}
	if err := denials[name]; err != nil {
		return err
	}
	return ebpf.ErrNotSupported
}
