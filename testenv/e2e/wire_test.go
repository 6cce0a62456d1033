// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/google/gopacket/pcapgo"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/testenv/lab/rxepeer"
)

// eachPacket goes through the RoCEv2 packets of a capture.
func eachPacket(t *testing.T, file string, f func(at time.Time, p rocev2.Packet)) {
	t.Helper()
	in, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	r, err := pcapgo.NewReader(in)
	if err != nil {
		t.Fatal(err)
	}
	for {
		frame, ci, err := r.ReadPacketData()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		p, err := rocev2.ParseFrame(frame)
		if err != nil {
			continue // ARP, TCP of perftest
		}
		f(ci.Timestamp, p)
	}
}

// onWire counts what a capture holds.
type onWire struct {
	packets, control, badICRC int
	stamped                   int
	data, dataStamped         int // packets with payload
	acks, acksEchos           int
	strayEchos                int // echoes of a time that no packet left at
	longest                   int // frame, in bytes
}

func readCapture(t *testing.T, file string) onWire {
	t.Helper()
	var w onWire
	sentAt := map[netip.Addr]map[uint64]bool{} // T1 by the host that wrote it
	firstT1 := map[netip.Addr]uint64{}
	eachPacket(t, file, func(_ time.Time, p rocev2.Packet) {
		w.packets++
		w.longest = max(w.longest, len(p.Frame()))
		if p.VerifyICRC() != nil {
			w.badICRC++
		}
		s, err := p.Stamp()
		stamped := err == nil && s.Flags&rocev2.StampT1 != 0
		echo := stamped && s.Flags&rocev2.StampEcho != 0
		if stamped {
			if sentAt[p.Src()] == nil {
				sentAt[p.Src()], firstT1[p.Src()] = map[uint64]bool{}, s.T1
			}
			sentAt[p.Src()][s.T1] = true
		}
		if p.BTH().DestQP() == rocev2.ControlQPN { // a HELLO's T1 is echoed too
			w.control++
			return
		}
		if stamped {
			w.stamped++
		}
		// What left before the capture began may be echoed too.
		if echo && s.EchoT1 >= firstT1[p.Dst()] && len(sentAt[p.Dst()]) > 0 && !sentAt[p.Dst()][s.EchoT1] {
			w.strayEchos++
		}
		switch {
		case p.Opcode() == rocev2.RCAck:
			w.acks++
			if echo {
				w.acksEchos++
			}
		case p.PayloadLen() > 0:
			w.data++
			if stamped {
				w.dataStamped++
			}
		}
	})
	return w
}

// checkStamped is for captures between machines that know each other.
func (w onWire) checkStamped(t *testing.T) {
	t.Helper()
	t.Logf("on the wire: %+v", w)
	if w.badICRC > 0 {
		t.Errorf("%d packets with a bad ICRC", w.badICRC)
	}
	if w.data == 0 || w.dataStamped < w.data {
		t.Errorf("%d of %d data packets carry the stamp option", w.dataStamped, w.data)
	}
	if w.acks == 0 || w.acksEchos < w.acks*9/10 {
		t.Errorf("%d of %d ACKs carry an echo", w.acksEchos, w.acks)
	}
	if w.strayEchos > 0 {
		t.Errorf("%d echoes of a T1 that the peer never sent", w.strayEchos)
	}
}

// dest is what the tests look at in an entry of the destination table.
type dest struct {
	TxNs           int64  `json:"tx_ns"`
	RxNs           int64  `json:"rx_ns"`
	InTxNs         int64  `json:"in_tx_ns"`
	RttNs          int64  `json:"rtt_ns"`
	RateBps        uint64 `json:"rate_bps"`
	Caps           uint16 `json:"caps"`
	Node           uint32 `json:"node"`
	TxPackets      uint64 `json:"tx_packets"`
	RxPackets      uint64 `json:"rx_packets"`
	TxUnstamped    uint64 `json:"tx_unstamped"`
	RxUnstamped    uint64 `json:"rx_unstamped"`
	PSNRegressions uint64 `json:"psn_regressions"`
	Policy         struct {
		Decreases uint32 `json:"decreases"`
		Row       uint8  `json:"row"`
		Action    uint8  `json:"action"`
	} `json:"policy"`
}

// destFields are names that bpftool must know.
var destFields = []string{
	"tx_ns", "rx_ns", "in_tx_ns", "rtt_ns", "rate_bps", "caps", "node",
	"tx_packets", "rx_packets", "tx_unstamped", "rx_unstamped", "psn_regressions",
}

// destTable reads the pinned table with bpftool, as a person would.
func destTable(ctx context.Context, t *testing.T, vm *rxepeer.VM) map[netip.Addr]dest {
	t.Helper()
	out := run(ctx, t, vm, "bpftool", "-j", "map", "dump", "pinned", "/sys/fs/bpf/softroce-xdp/eth0/dest_table")
	var entries []struct {
		Formatted struct {
			Key   struct{ Addr []uint8 }
			Value json.RawMessage
		}
	}
	if err := json.Unmarshal([]byte(out), &entries); err != nil {
		t.Fatalf("bpftool map dump: %v\n%s", err, out)
	}
	table := map[netip.Addr]dest{}
	for _, e := range entries {
		var d dest
		var fields map[string]json.RawMessage
		if err := errors.Join(json.Unmarshal(e.Formatted.Value, &d), json.Unmarshal(e.Formatted.Value, &fields)); err != nil {
			t.Fatalf("bpftool map dump: %v\n%s", err, out)
		}
		for _, name := range destFields {
			if _, ok := fields[name]; !ok {
				t.Fatalf("bpftool map dump shows no field %s:\n%s", name, out)
			}
		}
		addr, ok := netip.AddrFromSlice(e.Formatted.Key.Addr)
		if !ok {
			t.Fatalf("bpftool map dump: key of %d bytes", len(e.Formatted.Key.Addr))
		}
		table[addr.Unmap()] = d
	}
	return table
}
