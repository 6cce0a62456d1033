// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/rdma/client"
	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
)

// silentServer has the socket of a device server and never answers, as an agent that was stopped.
func silentServer(t *testing.T, ifname string) (runDir string) {
	t.Helper()
	runDir = t.TempDir()
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: proto.SocketPath(runDir, ifname), Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return runDir
}

// lossyServer answers a hello, and its descriptors are lost.
func lossyServer(t *testing.T, ifname string) (runDir string) {
	t.Helper()
	runDir = t.TempDir()
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: proto.SocketPath(runDir, ifname), Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		c, err := l.AcceptUnix()
		if err != nil {
			return
		}
		defer c.Close()
		b := make([]byte, proto.MaxMessage)
		if _, _, err := proto.Read(c, b); err != nil {
			return
		}
		hello := proto.Header{Type: proto.THello | proto.Reply, Seq: 1}
		_ = proto.Write(c, proto.Append(nil, hello, &proto.HelloReply{}))
		_, _, _ = proto.Read(c, b)
	}()
	return runDir
}

// A process that may open too few files is told so.
func TestOpenTooFewFiles(t *testing.T) {
	_, err := client.Open(t.Context(), "x0", client.Config{RunDir: lossyServer(t, "x0")})
	if !errors.Is(err, proto.ErrDescriptors) {
		t.Error(err)
	}
}

// Open ends although its context does not.
func TestOpenNoAnswer(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := client.Open(ctx, "x0", client.Config{RunDir: silentServer(t, "x0"), OpenLimit: time.Millisecond})
	if !errors.Is(err, client.ErrNoAnswer) || ctx.Err() != nil {
		t.Error(err)
	}
}

// Open whose context ends returns the error of the context.
func TestOpenContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err := client.Open(ctx, "x0", client.Config{RunDir: silentServer(t, "x0")})
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, client.ErrNoAnswer) {
		t.Error(err)
	}
}
