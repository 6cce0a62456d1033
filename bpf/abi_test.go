// SPDX-License-Identifier: Apache-2.0

package bpf_test

import (
	"net/netip"
	"os"
	"regexp"
	"strconv"
	"testing"
	"unsafe"

	"github.com/softroce/softroce-xdp/bpf"
)

// Layouts that pins of another version would break on.
func TestLayouts(t *testing.T) {
	for _, c := range []struct {
		name      string
		got, want uintptr
	}{
		{"dest_key", unsafe.Sizeof(bpf.DestKey{}), 16},
		{"dest_regs", unsafe.Sizeof(bpf.DestRegs{}), 9 * 64},
		{"policy_regs", unsafe.Sizeof(bpf.PolicyRegs{}), 3 * 64},
		{"rx_meta", unsafe.Sizeof(bpf.RxMeta{}), 32},
		{"steer", unsafe.Sizeof(bpf.Steer{}), 8},
		{"cm_request", unsafe.Sizeof(bpf.CmRequest{}), 32},
		{"cm_id", unsafe.Sizeof(bpf.CmId{}), 24},
		{"sr_event", unsafe.Sizeof(bpf.Event{}), 72},
		{"own_words", unsafe.Sizeof(bpf.OwnWords{}), 24},
		{"own_pair", unsafe.Sizeof(bpf.OwnPair{}), 24},
		{"agent_slot", unsafe.Sizeof(bpf.AgentSlot{}), 32 + 9*64},
		{"engine_slot", unsafe.Sizeof(bpf.EngineSlot{}), 96},
	} {
		if c.got != c.want {
			t.Errorf("%s has %d bytes, want %d", c.name, c.got, c.want)
		}
	}
}

// Each cache line of an entry has one writer; the first field of each line tells
// that no field moved to another line.
func TestDestRegsLines(t *testing.T) {
	var r bpf.DestRegs
	for line, offset := range []uintptr{
		unsafe.Offsetof(r.RxToken), // ingress
		unsafe.Offsetof(r.TxNs),    // ingress, when an echo comes
		unsafe.Offsetof(r.RateBps), // ingress, seldom, and engine_sync
		unsafe.Offsetof(r.TxPackets),
		unsafe.Offsetof(r.Flows),
		unsafe.Offsetof(r.PsnRegressions),
		unsafe.Offsetof(r.Policy),
	} {
		if offset != uintptr(line)*64 {
			t.Errorf("line %d starts at offset %d, want %d", line, offset, line*64)
		}
	}
	// An element is a multiple of two lines, so that the key and line 0 are always a pair.
	if n := 48 + unsafe.Sizeof(bpf.DestKey{}) + unsafe.Sizeof(r); n%128 != 0 {
		t.Errorf("an element has %d bytes", n)
	}
	// rx_meta is in front of frames, where only 4-byte multiples up to 32 fit everywhere.
	if n := unsafe.Sizeof(bpf.RxMeta{}); n > 32 || n%4 != 0 {
		t.Errorf("rx_meta has %d bytes", n)
	}
}

// Macros of abi.h, which Go has to repeat.
func TestMacros(t *testing.T) {
	header, err := os.ReadFile("lib/abi.h")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]uint64{
		"SR_ABI_VERSION": bpf.ABIVersion, "SR_META_MAGIC": bpf.MetaMagic, "SR_AGENT_SLOTS": bpf.AgentSlots,
		"SR_PSN_SLOTS": uint64(len(bpf.DestRegs{}.Flows)), "SR_CALL_INVALID": 0xffffffff, "SR_ENGINE_SLOTS": bpf.EngineSlots, "SR_ENGINE_SYNC": 0x100, "SR_ROOM_NONE": bpf.RoomNone,
	}
	for _, m := range regexp.MustCompile(`(?m)^#define (SR_\w+) (\w+?)u?\b`).FindAllStringSubmatch(string(header), -1) {
		got, err := strconv.ParseUint(m[2], 0, 64)
		if w, ok := want[m[1]]; !ok || err != nil || got != w {
			t.Errorf("%s is %s in abi.h (%v), %#x in Go", m[1], m[2], err, w)
		}
		delete(want, m[1])
	}
	for name := range want {
		t.Errorf("%s is not in abi.h", name)
	}
}

func TestReasonsAreUnique(t *testing.T) {
	names, next := map[string]bool{}, uint32(0)
	for _, r := range bpf.Reasons() {
		if r.Number != next || names[r.Name] || r.Text == "" {
			t.Errorf("reason %d %s %q: want number %d, a new name and a text", r.Number, r.Name, r.Text, next)
		}
		next, names[r.Name] = r.Number+1, true
		if n, ok := bpf.ReasonNumber(r.Name); !ok || n != r.Number {
			t.Errorf("%s has number %d, %v", r.Name, n, ok)
		}
	}
	header, err := os.ReadFile("lib/reasons.h")
	if err != nil {
		t.Fatal(err)
	}
	if lines := regexp.MustCompile(`\bSR_REASON\(\d`).FindAll(header, -1); len(lines) != len(bpf.Reasons()) {
		t.Errorf("Go reads %d reasons of %d", len(bpf.Reasons()), len(lines))
	}
}

func TestKeys(t *testing.T) {
	for in, want := range map[string]string{"10.0.0.4": "10.0.0.4", "::ffff:10.0.0.4": "10.0.0.4", "fd00::4": "fd00::4", "fe80::1%eth0": "fe80::1"} {
		if got := bpf.AddrOf(bpf.KeyOf(netip.MustParseAddr(in))).String(); got != want {
			t.Errorf("%s came back as %s", in, got)
		}
	}
}
