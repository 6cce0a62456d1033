// SPDX-License-Identifier: Apache-2.0

package driver_test

import (
	"testing"

	"github.com/softroce/softroce-xdp/hwoffload/card"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/rocev2"
)

// A frame is built when it leaves, as its time T1 is that. A port that is disabled sends none.
func TestFramesAreBuiltAsTheyLeave(t *testing.T) {
	w := newCreditNodes(t, 2)
	a, _ := w.pair(w.side[0], w.side[1], rocev2.PMTU1024)
	w.quiet()
	const n = 5
	a.send(n * 1024)
	buf := make([]byte, card.FrameLen)
	now, port := w.net.Now(), regs.PortsOf(a.card, 0)
	for i := range uint64(n) {
		if _, _, ok := a.m.NextFrame(now, buf); !ok || port.TxPackets() != i+1 {
			t.Errorf("frame %d: %v, %d frames were built", i, ok, port.TxPackets())
		}
	}
	a.send(1024)
	a.m.Expire(now)
	port.SetControl(port.Control().WithEnable(false))
	if _, _, ok := a.m.NextFrame(now, buf); ok || port.TxPackets() != n+1 {
		t.Errorf("a port that is disabled sends a frame: %v, %d frames were built", ok, port.TxPackets())
	}
}

// The bytes of a port are those of IP without the option, also of messages of pre-credit.
func TestPortBytes(t *testing.T) {
	w := newCreditNodes(t, 2)
	for _, s := range w.side {
		s.enable(creditConfig(creditBudget))
	}
	events := w.trace(nil)
	a, _ := w.pair(w.side[0], w.side[1], rocev2.PMTU1024)
	a.send(3000)
	a.poll(1)
	w.quiet()
	var bytes, control uint64
	for _, e := range *events {
		if e.from != a.mac[5] {
			continue
		}
		if e.packet.BTH().DestQP() == rocev2.ControlQPN {
			control++
		}
		bytes += uint64(e.packet.IPLen())
		if _, err := e.packet.Stamp(); err == nil {
			bytes -= rocev2.StampLen
		}
	}
	if got := regs.PortsOf(a.card, 0).TxBytes(); got != bytes || control == 0 {
		t.Errorf("the port counts %d bytes, %d have left with %d messages of pre-credit", got, bytes, control)
	}
}
