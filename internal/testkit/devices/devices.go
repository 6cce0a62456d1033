// SPDX-License-Identifier: Apache-2.0

// Package devices opens loopback devices for tests, connects their queue pairs and waits for completions.
// Only tests import it; internal/testkit has what needs nothing of the project.
package devices

import (
	"context"
	"net/netip"
	"testing"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Loopback opens an engine without an interface, whose queue pairs reach each other at 127.0.0.1 and ::1. It is closed
// when the test ends. A test may close it earlier.
func Loopback(t testing.TB) *nic.Device {
	t.Helper()
	dev := testkit.Must1(nic.OpenLoopback(nic.Options{}))(t)
	t.Cleanup(func() { testkit.Must(t, dev.Close()) })
	return dev
}

// qkey is the Q_Key of the queue pairs that Connect connects.
const qkey = 0x11111111

// endpoint returns the end of a queue pair of a loopback device as Connect uses it.
func endpoint(q verbs.QP, psn rocev2.PSN) verbs.Endpoint {
	return verbs.Endpoint{Addr: netip.AddrFrom4([4]byte{127, 0, 0, 1}), QPN: q.QPN(), PSN: psn, QKey: qkey}
}

// Connect brings two queue pairs of loopback devices to RTS, each with the address of the other one. They may be the
// same queue pair.
func Connect(t testing.TB, a, b verbs.QP, attr verbs.Attr) {
	t.Helper()
	own := endpoint(a, 0xFFFFF0) // PSNs that wrap after 16 packets
	if a == b {
		testkit.Must(t, verbs.Connect(a, own, own, attr))
		return
	}
	other := endpoint(b, 0xFFFFE8) // after 24 packets: a PSN of the wrong direction is an error
	testkit.Must(t, verbs.Connect(a, own, other, attr))
	testkit.Must(t, verbs.Connect(b, other, own, attr))
}

// Next waits for the next completion of a queue and returns it.
func Next(t testing.TB, cq verbs.CQ) verbs.Completion {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	defer cancel()
	testkit.Must(t, cq.Wait(ctx, false))
	var c [1]verbs.Completion
	if cq.Poll(c[:]) != 1 {
		t.Fatal("Wait returned without a completion")
	}
	return c[0]
}
