// SPDX-License-Identifier: Apache-2.0

package script

import "testing"

const (
	heartbeat = "eth0: attached for 1s, XDP native\n  ! the agent (pid 7) lives but its heartbeat is 4.2s old: traffic goes unpaced; see its log\n"
	silent    = "seq=2: 10.53.0.2:7174 has become silent: is the host up, and the server running? (retry exceeded)\n"
	lost      = "softroce-xdp: 1 of 3 round trips lost\n"
)

// Only what a machine that stands still explains is tried again.
func TestTriedAgain(t *testing.T) {
	for _, c := range []struct {
		name           string
		again          func(stdout, stderr string) bool
		stdout, stderr string
		want           bool
	}{
		{"an old heartbeat", onlyLate, heartbeat, "softroce-xdp: 1 problem\n", true},
		{"and no report", onlyLate, heartbeat + "  ! the agent does not report (the last one is 6s old): what it has found is not shown; see its log\n",
			"softroce-xdp: 2 problems\n", true},
		{"and a qdisc", onlyLate, heartbeat + "  ! the root qdisc of the pacer was removed\n", "softroce-xdp: 2 problems\n", false},
		{"no problem is named", onlyLate, "", "softroce-xdp: not attached\n", false},
		{"a silent peer", onlyLost, silent, lost, true},
		{"a quiet ping", onlyLost, "--- 10.53.0.2:7174 ---\n", lost, true},
		{"no connection", onlyLost, "", "softroce-xdp: no answer from 10.53.0.2:7174: does it run there?\n", true},
		{"wrong data too", onlyLost, silent, "softroce-xdp: wrong data came back in 1 of 2 round trips\n", false},
		{"lost to an error", onlyLost, silent + "seq=3: remote access error\n", "softroce-xdp: 2 of 3 round trips lost\n", false},
		{"refused", onlyLost, "", "softroce-xdp: 10.53.0.2:7174 refuses the connection\n", false},
	} {
		if got := c.again(c.stdout, c.stderr); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
