// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/testenv/lab/rxepeer"
)

// TestKernelPorts has a machine whose interface has an agent with a device, and rxe: programs that use the one and those that use the
// other have one space of ports, also when rxe comes and goes.
func TestKernelPorts(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	p := bootPair(ctx, t, 1500, rxepeer.Debian13)
	p.attachOne(ctx, t, p.a, "--nic", "--pacer", "none")
	own := p.addr(p.a, false).String()
	const port, other = "7300", "7301"
	kernelServes := []string{"rping", "-s", "-p", port, "-a", own}
	deviceServes := []string{"softroce-xdp", "ping", "--listen", own + ":" + port}

	inUse := regexp.MustCompile(`rdma_bind_addr: (Cannot assign requested address|Address already in use)`)

	// refused wants a server to end with an error.
	refused := func(want *regexp.Regexp, argv ...string) {
		t.Helper()
		res, err := p.a.RunCmd(ctx, rxepeer.Cmd{Argv: argv, Timeout: 30 * time.Second})
		if _, exited := rxepeer.IsExit(err); !exited || res.TimedOut || !want.MatchString(res.Stdout+res.Stderr) {
			t.Errorf("%q: %v; want %s", argv, err, want)
		}
	}
	// serve starts a server, which may be refused for a moment: what was stopped before it may not have ended.
	serve := func(ready string, argv ...string) (stop func()) {
		t.Helper()
		var proc *rxepeer.Proc
		testkit.Eventually(t, fmt.Sprintf("%q serves", argv), func() error {
			q, err := p.a.Start(ctx, argv...)
			if err != nil {
				t.Fatal(err)
			}
			proc = q
			for {
				if res, err := p.a.Run(ctx, "sh", "-c", ready); err == nil {
					return nil
				} else if _, exited := rxepeer.IsExit(err); !exited {
					t.Fatal(err, res)
				}
				short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
				_, err := q.Wait(short)
				cancel()
				if short.Err() == nil {
					return fmt.Errorf("it has ended: %w", err)
				}
			}
		})
		return func() {
			t.Helper()
			if err := proc.Signal(unix.SIGINT); err != nil {
				t.Error(err)
			}
			_, _ = proc.Wait(ctx) // rping exits with an error
		}
	}
	const kernelReady = "rdma resource show cm_id | grep -q 'LISTEN.*:" + port + "'"
	const deviceReady = "softroce-xdp status eth0 --json | grep -q '\"listeners\": 1'"

	// Another agent of the host may have a listener at the same port, on its own interface.
	run(ctx, t, p.a, "sh", "-ec", "ip link add d0 type veth peer name d1; ip addr add 10.78.0.1/24 dev d0; ip link set d0 up; ip link set d1 up")
	run(ctx, t, p.a, "softroce-xdp", "attach", "--nic", "--pacer", "none", "d0")
	run(ctx, t, p.a, "rdma", "link", "add", "rxe1", "type", "rxe", "netdev", "d0")
	stopOther := serve("softroce-xdp status d0 --json | grep -q '\"listeners\": 1'", "softroce-xdp", "ping", "--listen", "10.78.0.1:"+port)
	stop := serve(deviceReady, deviceServes...)
	stopOther()
	refused(inUse, kernelServes...)
	stop()
	stop = serve(kernelReady, kernelServes...)
	refused(regexp.MustCompile("a program that uses the kernel's RDMA has the port"), deviceServes...)
	stop()

	// rxe comes while the device's server listens: its port is taken from then on.
	run(ctx, t, p.a, "rdma", "link", "delete", "rxe0")
	stop = serve(deviceReady, deviceServes...)
	run(ctx, t, p.a, "rdma", "link", "add", "rxe0", "type", "rxe", "netdev", "eth0")
	testkit.Eventually(t, "the kernel refuses the port", func() error {
		res, err := p.a.RunCmd(ctx, rxepeer.Cmd{Argv: kernelServes, Timeout: 2 * time.Second})
		if _, exited := rxepeer.IsExit(err); !exited || res.TimedOut || !inUse.MatchString(res.Stdout+res.Stderr) {
			return fmt.Errorf("%w: %s", err, res.Stderr)
		}
		return nil
	})

	// A program that uses rxe connects as soon as rxe is there: the device leaves the kernel's messages to the kernel.
	server, err := p.b.Start(ctx, "rping", "-s", "-P", "-p", other, "-a", p.addr(p.b, false).String())
	if err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the peer listens", func() bool {
		_, err := p.b.Run(ctx, "sh", "-c", "rdma resource show cm_id | grep -q 'LISTEN.*:"+other+"'")
		return err == nil
	})
	again := "rdma link delete rxe0; sleep 2; rdma link add rxe0 type rxe netdev eth0; rping -c -v -C 1 -p " + other + " -a " + p.addr(p.b, false).String()
	for range 3 {
		if out := run(ctx, t, p.a, "sh", "-ec", again); !strings.Contains(out, "ping data") {
			t.Errorf("rping says\n%s", out)
		}
	}
	if err := server.Signal(unix.SIGINT); err != nil {
		t.Error(err)
	}
	stop()
	run(ctx, t, p.a, "softroce-xdp", "detach", "eth0")
}
