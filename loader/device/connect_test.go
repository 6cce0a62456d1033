// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"testing"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/loader/device"
)

// tell has a process do something, and returns what it says about it.
func (p *process) tell(line string) string {
	p.t.Helper()
	p.say(line)
	return p.line("done ")
}

// connectedPair starts two processes: the first listens, the second has dialed it.
func connectedPair(t *testing.T, dir string) (server, client *process) {
	t.Helper()
	server, client = start(t, "connected", dir), start(t, "connected", dir)
	server.line("ready")
	client.line("ready")
	addr := server.tell("listen")
	server.say("accept")
	client.tell("dial " + addr)
	server.line("done ")
	return server, client
}

// Two processes connect by address and exchange data in all ways.
func TestConnectedProcesses(t *testing.T) {
	_, dir := serve(t, device.Config{})
	server, client := connectedPair(t, dir)
	for _, p := range [][2]*process{{client, server}, {server, client}} {
		p[0].tell("send")
		p[1].tell("recv")
	}
	client.tell("far " + server.tell("region"))
	client.tell("read")
	client.tell("write")
	server.tell("check")
	client.tell("close")
	if got := server.tell("end"); got != "EOF" {
		t.Errorf("the end of the connection is %q", got)
	}
}

// A process is killed: the connection of its peer ends, since the server says so to the peer.
func TestConnectedProcessIsKilled(t *testing.T) {
	s, dir := serve(t, device.Config{})
	server, client := connectedPair(t, dir)
	server.say("end")
	client.kill()
	t.Log(server.line("done "))
	testkit.Eventually(t, "one process is left", func() bool { return len(s.Status().Processes) == 1 })
	next := start(t, "connected", dir)
	next.line("ready")
	addr := server.tell("listen")
	server.say("accept")
	next.tell("dial " + addr)
	server.line("done ")
	next.tell("send")
	server.tell("recv")
}
