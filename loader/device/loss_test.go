// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"strconv"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/testenv/lab/engines"
	"github.com/softroce/softroce-xdp/testenv/lab/faults"
	"github.com/softroce/softroce-xdp/testenv/lab/require"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// Processes of two hosts that do not know of each other's stamps and selective acknowledgements, as if each were
// Linux rxe to the other, exchange data with 1 % of all packets lost. Each process sees its own retransmissions.
func TestLossWithoutStamps(t *testing.T) {
	require.Root(t)
	top := topo.ForTest(t, topo.Spec{Hosts: topo.Hosts(2), StaticNeighbours: true})
	sw, err := faults.NewLoss(top)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sw.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := sw.Lose(.01); err != nil {
		t.Fatal(err)
	}
	if err := sw.Lose(1, rocev2.OpHello, rocev2.OpHelloAck); err != nil {
		t.Fatal(err)
	}
	hosts := engines.On(t, top, "--nic", "--nic-mode", "0666", "--rate", "10G", "--pacer", "none")
	p, idle := pairOn(t, hosts), startOn(t, hosts[0])
	idle.line("address ")
	for _, how := range []string{"read", "write", "send"} {
		transfer(p, how)
	}
	number := func(p *process, name string) int {
		p.say("counter " + name)
		n, err := strconv.Atoi(p.line(""))
		p.line("done")
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for i := range p {
		again, mine := number(p[i], "tx_retransmits"), counters(t, hosts[i])
		if again == 0 || uint64(again) != mine["tx_retransmits"] {
			t.Errorf("process %d has sent %d packets again, its host %d", i, again, mine["tx_retransmits"])
		}
		if mine["tx_stamped"] != 0 || mine["sack_sent"] != 0 {
			t.Errorf("host %d has sent %d stamps and %d selective acknowledgements", i, mine["tx_stamped"], mine["sack_sent"])
		}
	}
	if n := number(idle, "tx_retransmits"); n != 0 {
		t.Errorf("the idle process has sent %d packets again", n)
	}
	if n, err := sw.Lost(); err != nil || n == 0 {
		t.Errorf("%d packets were lost, %v", n, err)
	}
}
