// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/loader/device"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/rdma/client"
	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
)

// An engine that has failed is opened again, also if that fails at first. Processes find the device at
// the same place.
func TestKeepServing(t *testing.T) {
	dir := testkit.SocketDir(t)
	engines := make(chan *nic.Device, 10)
	fails := 0
	open := func() (*device.Server, error) {
		if fails > 0 {
			fails--
			return nil, errors.New("not yet")
		}
		s, err := device.New(device.Config{Socket: proto.SocketPath(dir, "lo")})
		if err != nil {
			return nil, err
		}
		d, err := nic.OpenLoopback(nic.Options{Feeder: s.Feeder()})
		if err == nil {
			err = s.Serve(d)
		}
		engines <- d
		return s, err
	}
	first, err := open()
	if err != nil {
		t.Fatal(err)
	}
	fails = 1
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		keepServing(first, stop, func() bool { return false }, open, slog.New(slog.DiscardHandler))
	}()
	for range 2 {
		d := testkit.Receive(t, "the engine is opened again", engines)
		c, err := client.Open(t.Context(), "lo", client.Config{RunDir: dir})
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Close(); err != nil { // by itself, for the server
			t.Fatal(err)
		}
		if e, more := <-c.Events(); !more || e.Err == nil {
			t.Errorf("%+v, %v", e, more)
		}
		_ = c.Close()
	}
	close(stop)
	<-ended
	if _, err := client.Open(t.Context(), "lo", client.Config{RunDir: dir}); err == nil {
		t.Error("a device is served after the end")
	}
}

// The agent finds that the interface was lost before the device does: processes get the reason all the same.
func TestLostInterface(t *testing.T) {
	dir := testkit.SocketDir(t)
	s, err := device.New(device.Config{Socket: proto.SocketPath(dir, "lo")})
	if err != nil {
		t.Fatal(err)
	}
	d, err := nic.OpenLoopback(nic.Options{Feeder: s.Feeder()})
	if err != nil {
		t.Fatal(err)
	}
	testkit.Must(t, s.Serve(d))
	c, err := client.Open(t.Context(), "lo", client.Config{RunDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	stop, asked, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	lost := func() bool { close(asked); return true }
	go func() {
		defer close(ended)
		keepServing(s, stop, lost, nil, slog.New(slog.DiscardHandler))
	}()
	close(stop)
	<-asked
	time.Sleep(200 * time.Millisecond)
	select {
	case <-ended:
		t.Error("the server was closed before the device had ended: it tells no reason")
	default:
	}
	testkit.Must(t, d.Close())
	if e, more := <-c.Events(); !more || e.Err == nil {
		t.Errorf("%+v, %v", e, more)
	}
	<-ended
}
