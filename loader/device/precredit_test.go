// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"testing"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/loader/device"
	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
	"github.com/softroce/softroce-xdp/testenv/lab/engines"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// counters are those of the device of a host.
func counters(t *testing.T, h *engines.Host) map[string]uint64 {
	t.Helper()
	st, err := device.ReadStatus(t.Context(), proto.SocketPath(h.LoaderOptions().RunDir, topo.IfName))
	if err != nil {
		t.Fatal(err)
	}
	return st.Counters
}

// With --nic-precredit, processes that connect by address use pre-credit: the first data of a connection
// leaves on the grant of the peer, which has come before (S5.1).
func TestPreCredit(t *testing.T) {
	hosts := twoHosts(t, "--nic-precredit", "--policy", "mode=fixed")
	server, client := startRoleOn(t, "connected", hosts[1], hosts[1]), startRoleOn(t, "connected", hosts[0], hosts[0])
	server.line("ready")
	client.line("ready")
	const sent = 5000 // bytes of a SEND of these processes
	used := func() uint64 { return counters(t, hosts[0])["precredit_used"] }
	addr := server.tell("listen")
	// The first connections have the hosts learn of each other. A grant that is late because the machine is
	// busy is not waited for.
	testkit.Eventually(t, "the first data leaves on pre-credit", func() bool {
		before := used()
		server.say("accept")
		client.tell("dial " + addr)
		server.line("done ")
		client.tell("send")
		server.tell("recv")
		first := used() - before
		client.tell("close")
		server.tell("end")
		return first >= sent
	})
	if got := counters(t, hosts[1]); got["precredit_granted"] < sent || got["precredit_delivered"] < sent {
		t.Errorf("the host of the server has counted %v", got)
	}
}
