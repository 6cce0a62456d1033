// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/testenv/lab/rxepeer"
)

// A program that uses rxe connects as soon as rxe is there, also if an agent serves the device of the interface: the device leaves the
// kernel's messages to the kernel.
func TestKernelConnectsAtOnce(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	p := bootPair(ctx, t, 1500, rxepeer.Debian13)
	p.attachOne(ctx, t, p.a, "--nic", "--pacer", "none")
	peer := p.addr(p.b, false).String()
	server, err := p.b.Start(ctx, "rping", "-s", "-P", "-a", peer)
	if err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the peer listens", func() bool {
		_, err := p.b.Run(ctx, "sh", "-c", "rdma resource show cm_id | grep -q LISTEN")
		return err == nil
	})
	again := "rdma link delete rxe0; sleep 2; rdma link add rxe0 type rxe netdev eth0; rping -c -v -C 1 -a " + peer
	for good, tries := 0, 1; good < 3; tries++ {
		res, err := p.a.Run(ctx, "sh", "-ec", again)
		switch said := res.Stdout + res.Stderr; {
		case err == nil && strings.Contains(said, "ping data"):
			good++
		case strings.Contains(said, "REJECTED") || tries == 3+lateTries:
			t.Fatalf("%v\n%s", err, said)
		default: // a machine that is paused is late
			t.Logf("again: %v", err)
		}
	}
	if err := server.Signal(unix.SIGINT); err != nil {
		t.Error(err)
	}
	run(ctx, t, p.a, "softroce-xdp", "detach", "eth0")
}
