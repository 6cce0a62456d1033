// SPDX-License-Identifier: Apache-2.0

package loader

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/features"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// A Feature is one thing that the product needs or likes of the kernel.
type Feature struct {
	Name     string `json:"name"`
	Have     bool   `json:"have"`
	Required bool   `json:"required"`
	Since    string `json:"since"` // first Linux release with it
	Why      string `json:"why"`
	Detail   string `json:"detail,omitempty"`
}

// KernelFeatures probes the running kernel. It needs CAP_BPF.
func KernelFeatures() []Feature {
	f := []Feature{
		{Name: "XDP programs", Required: true, Since: "4.8", Why: "the ingress data plane",
			Have: features.HaveProgramType(ebpf.XDP) == nil},
		{Name: "bpf_xdp_load_bytes", Required: true, Since: "5.18", Why: "frames of several buffers (xdp.frags, jumbo MTU)",
			Have: features.HaveProgramHelper(ebpf.XDP, asm.FnXdpLoadBytes) == nil},
		{Name: "bpf_skb_set_tstamp", Required: true, Since: "5.18", Why: "departure times for the edt pacer",
			Have: features.HaveProgramHelper(ebpf.SchedCLS, asm.FnSkbSetTstamp) == nil},
		{Name: "syscall programs", Required: true, Since: "5.14", Why: "the agent's access to live table entries",
			Have: features.HaveProgramType(ebpf.Syscall) == nil},
		{Name: "ring buffer", Required: true, Since: "5.8", Why: "events from the data plane",
			Have: features.HaveMapType(ebpf.RingBuf) == nil},
		{Name: "queue map", Required: true, Since: "4.20", Why: "the list of active destinations",
			Have: features.HaveMapType(ebpf.Queue) == nil},
		{Name: "XSK map", Required: true, Since: "4.18", Why: "steering packets to the engine",
			Have: features.HaveMapType(ebpf.XSKMap) == nil},
		{Name: "bpf_ktime_get_tai_ns", Since: "6.1", Why: "stamps on CLOCK_TAI (--clock tai)",
			Have: features.HaveProgramHelper(ebpf.XDP, asm.FnKtimeGetTaiNs) == nil},
		{Name: "TCX links", Since: "6.6", Why: "the egress data plane; clsact serves below",
			Have: haveTCX() == nil},
	}
	return f
}

// haveTCX tries to attach to an interface that cannot exist: a kernel with TCX
// says that it is not there, an older one that it does not know the request.
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

// checkKernel returns an error that names every required feature that is missing.
func checkKernel() error {
	var missing error
	for _, f := range KernelFeatures() {
		if f.Required && !f.Have {
			missing = errors.Join(missing, fmt.Errorf("this kernel lacks %s (Linux %s and later): needed for %s", f.Name, f.Since, f.Why))
		}
	}
	return missing
}
