// SPDX-License-Identifier: Apache-2.0

package rxepeer

import (
	"bytes"
	"context"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/vishvananda/netns"
)

const echoPort = "9000"

// TestHostReachesMachine shows that a namespace of this kernel and a machine hear each other over
// IPv4 and IPv6, by ping and UDP, with datagrams that fill the jumbo MTU.
func TestHostReachesMachine(t *testing.T) {
	ctx := testContext(t)
	const mtu = 4200
	n, err := NewNet(mtu)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	h, err := n.AddHost(HostConfig{
		Name: "engine", MTU: mtu, Addrs: []netip.Prefix{netip.MustParsePrefix("10.77.0.9/24"), netip.MustParsePrefix("fd77::9/64")},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	img, err := EnsureImage(ctx, Debian13)
	if err != nil {
		t.Fatal(err)
	}
	echo, err := img.CompileC(ctx, "udpecho", os.DirFS("testdata/udpecho"))
	if err != nil {
		t.Fatal(err)
	}
	vm, err := Boot(ctx, Config{
		Name: "h", Fresh: true, Image: img, Files: map[string]string{"/usr/bin/udpecho": echo},
		Ports: []string{"echo"}, NICs: []NIC{NIC{Net: n, MTU: mtu}.at("10.77.0.1/24", "fd77::1/64")},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { vm.Close() })

	server, err := vm.Start(ctx, "udpecho", echoPort)
	if err != nil {
		t.Fatal(err)
	}
	for out := ""; out != "listening\n"; out, _ = server.Output() {
		time.Sleep(10 * time.Millisecond)
		if ctx.Err() != nil {
			t.Fatal("the echo server does not listen")
		}
	}
	for _, addr := range []string{"10.77.0.1", "fd77::1"} {
		header := 28
		if strings.Contains(addr, ":") {
			header = 48
		}
		t.Run("ping "+addr, func(t *testing.T) {
			// The machine asks and the host answers, so both ways are taken.
			here := strings.TrimSuffix(addr, "1") + "9"
			if _, err := vm.Run(ctx, "ping", "-c", "3", "-i", "0.2", "-W", "60", "-s", strconv.Itoa(mtu-header), here); err != nil {
				t.Error(err)
			}
		})
		t.Run("udp "+addr, func(t *testing.T) { udpEcho(t, h, addr, mtu-header) })
	}
	t.Run("port", func(t *testing.T) { portEcho(ctx, t, vm) })
}

// udpEcho sends a datagram to an echo server in the machine and wants it back.
func udpEcho(t *testing.T, h *Host, addr string, size int) {
	var conn net.Conn
	if err := h.Do(func() (err error) {
		conn, err = net.Dial("udp", net.JoinHostPort(addr, echoPort))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Minute))
	sent, got := bytes.Repeat([]byte("datagram"), size/8), make([]byte, size+1)
	if _, err := conn.Write(sent); err != nil {
		t.Fatal(err)
	}
	if n, err := conn.Read(got); err != nil || !bytes.Equal(got[:n], sent) {
		t.Errorf("%d bytes came back of %d, %v", n, len(sent), err)
	}
}

// portEcho talks through a further virtio-serial port.
func portEcho(ctx context.Context, t *testing.T, vm *VM) {
	port, err := vm.Port("echo")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := vm.Port("other"); err == nil || !strings.Contains(err.Error(), "Config.Ports") {
		t.Errorf("a port that was not asked for: %v", err)
	}
	script := `exec 3<>/dev/virtio-ports/echo; read line <&3; echo "got $line" >&3`
	p, err := vm.Start(ctx, "sh", "-c", script)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := port.Write([]byte("word\n")); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 64)
	if n, err := port.Read(buf); err != nil || string(buf[:n]) != "got word\n" {
		t.Errorf("got %q, %v", buf[:n], err)
	}
}

func TestAddHostErrors(t *testing.T) {
	n := testNet(t)
	if _, err := n.AddHost(HostConfig{Name: "waytoolongname"}); err == nil || !strings.Contains(err.Error(), "must match") {
		t.Errorf("name: %v", err)
	}
	if _, err := (&Net{NS: n.NS}).AddHost(HostConfig{Name: "x"}); err == nil || !strings.Contains(err.Error(), "no bridge") {
		t.Errorf("no bridge: %v", err)
	}
	if _, err := n.AddHost(HostConfig{Name: "x", MTU: 10}); err == nil {
		t.Error("MTU 10 was accepted")
	}
	if hasLink(t, n, "x-v") {
		t.Error("a link was left behind")
	}
	h, err := n.AddHost(HostConfig{Name: "x", NS: netns.None()})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}
	if hasLink(t, n, "x-v") {
		t.Error("the link outlives Close")
	}
}

func TestCompileErrors(t *testing.T) {
	ctx := testContext(t)
	img, err := EnsureImage(ctx, Debian13)
	if err != nil {
		t.Fatal(err)
	}
	bad := fstest.MapFS{"x.c": {Data: []byte("int main(void) { return nonesuch; }\n")}}
	if _, err := img.CompileC(ctx, "bad", bad); err == nil || !strings.Contains(err.Error(), "nonesuch") {
		t.Errorf("error %v, want the compiler's words", err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(img.Sysroot), "bad*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
