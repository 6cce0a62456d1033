// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

const cmPort = mad.ServiceID(0x01060000 | 7174)

// entries counts those of the communication manager, and of queue pair 1 in the steering table.
func entries(t *testing.T, a *loader.Attachment) (services, requests, ids int, steered bool) {
	t.Helper()
	count := func(m *ebpf.Map) (n int) {
		key, value := make([]byte, m.KeySize()), make([]byte, m.ValueSize())
		it := m.Iterate()
		for it.Next(&key, &value) {
			if m == a.Maps.CmRequests && binary.NativeEndian.Uint32(key[28:]) == bpf.CmRest {
				continue // TestCMRest
			}
			n++
		}
		testkit.Must(t, it.Err())
		return n
	}
	var s bpf.Steer
	err := a.Maps.SteerTable.Lookup(uint32(mad.QPN), &s)
	return count(a.Maps.CmServices), count(a.Maps.CmRequests), count(a.Maps.CmIds), err == nil
}

func wantEntries(t *testing.T, what string, a *loader.Attachment, services, requests, ids int, steered bool) {
	t.Helper()
	s, r, i, on := entries(t, a)
	if s != services || r != requests || i != ids || on != steered {
		t.Errorf("%s: %d services, %d requests, %d IDs, queue pair 1 steered: %v; want %d, %d, %d, %v", what, s, r, i, on, services, requests, ids, steered)
	}
}

// The maps have what the sessions have, and nothing when the device is closed.
func TestCMMaps(t *testing.T) {
	top, o := attached(t)
	testkit.Must(t, top.Host(1).Do(func() error {
		a, err := loader.Open(topo.IfName, o)
		testkit.Must(t, err)
		defer a.Close()
		d, err := Open(topo.IfName, o, nic.Options{})
		testkit.Must(t, err)
		wantEntries(t, "no session", a, 0, 0, 0, false)
		s, err := d.OpenCM()
		testkit.Must(t, err)
		testkit.Must(t, s.Listen(cmPort, 0))
		p := cm.ConnectParams{Local: top.Host(1).IPv4(), Peer: top.Host(2).IPv4(), Service: cmPort, QPN: 5, Attr: verbs.DefaultAttr()}
		id, err := s.Connect(p)
		testkit.Must(t, err)
		wantEntries(t, "a listener and a connection", a, 1, 0, 1, true)
		var v bpf.CmId
		testkit.Must(t, a.Maps.CmIds.Lookup(uint32(id), &v))
		if bpf.AddrOf(v.Peer) != p.Peer || v.Sidr != 0 || v.Remote != 0 {
			t.Errorf("%+v", v)
		}
		p.Peer = p.Local // of this host: a request arrives, and both ends are here
		_, err = s.Connect(p)
		testkit.Must(t, err)
		for e := range s.Events() {
			if e.Kind == cm.Request {
				break
			}
		}
		wantEntries(t, "a request", a, 1, 1, 3, true)
		testkit.Must(t, s.Unlisten(cmPort))
		wantEntries(t, "without the listener", a, 0, 1, 3, true)
		testkit.Must(t, d.Close())
		wantEntries(t, "closed", a, 0, 0, 0, false)
		return nil
	}))
}

// What a killed engine leaves is removed, by the agent (CleanEngine) or by the next engine.
func TestCMEntriesOfKilledEngine(t *testing.T) {
	top, o := attached(t)
	testkit.Must(t, top.Host(1).Do(func() error {
		a, err := loader.Open(topo.IfName, o)
		testkit.Must(t, err)
		defer a.Close()
		leave := func() {
			t.Helper()
			testkit.Must(t, a.Maps.SteerTable.Put(uint32(mad.QPN), bpf.Steer{Queues: 1}))
			testkit.Must(t, a.Maps.CmServices.Put(uint64(cmPort), uint32(0)))
			testkit.Must(t, a.Maps.CmRequests.Put(bpf.CmRequest{Id: 1}, uint32(0)))
			for id := range uint32(1000) {
				testkit.Must(t, a.Maps.CmIds.Put(id, bpf.CmId{Remote: 3}))
			}
			cfg := testkit.Must1(a.LiveConfig())(t)
			cfg.Steered = 1
			testkit.Must(t, cfg.Close())
		}
		leave()
		left, err := loader.CleanEngine(a)
		if err != nil || !left {
			t.Errorf("%v, %v", left, err)
		}
		wantEntries(t, "cleaned", a, 0, 0, 0, false)
		leave()
		d, err := Open(topo.IfName, o, nic.Options{})
		testkit.Must(t, err)
		wantEntries(t, "the next engine", a, 0, 0, 0, false)
		return d.Close()
	}))
}

// An attachment of a version without these maps has no communication manager until it is upgraded.
func TestCMAfterUpgrade(t *testing.T) {
	top, o := attached(t)
	testkit.Must(t, top.Host(1).Do(func() error {
		for _, name := range []string{bpf.SoftroceMapCmServices, bpf.SoftroceMapCmRequests, bpf.SoftroceMapCmIds} {
			testkit.Must(t, os.Remove(filepath.Join(loader.PinDir(o.PinRoot, topo.IfName), name)))
		}
		d, err := Open(topo.IfName, o, nic.Options{})
		testkit.Must(t, err)
		if _, err := d.OpenCM(); err == nil || !strings.Contains(err.Error(), "softroce-xdp upgrade eth0") {
			t.Errorf("OpenCM: %v", err)
		}
		testkit.Must(t, d.Close())
		a, err := loader.Upgrade(topo.IfName, o)
		testkit.Must(t, err)
		a.Close()
		if d, err = Open(topo.IfName, o, nic.Options{}); err != nil {
			return err
		}
		s, err := d.OpenCM()
		testkit.Must(t, err)
		testkit.Must(t, s.Listen(cmPort, 0))
		if a, err = loader.Open(topo.IfName, o); err != nil {
			return errors.Join(err, d.Close())
		}
		defer a.Close()
		wantEntries(t, "after the upgrade", a, 1, 0, 0, true)
		return d.Close()
	}))
}

// Without a kernel RDMA device, the messages to the interface's addresses that match nothing else are
// the engine's until it is closed.
func TestCMRest(t *testing.T) {
	top, o := attached(t)
	testkit.Must(t, top.Host(1).Do(func() error {
		a, err := loader.Open(topo.IfName, o)
		testkit.Must(t, err)
		defer a.Close()
		d, err := Open(topo.IfName, o, nic.Options{})
		testkit.Must(t, err)
		_, err = d.OpenCM()
		testkit.Must(t, err)
		key := bpf.CmRequest{Peer: bpf.KeyOf(top.Host(1).IPv4()), Sidr: bpf.CmRest}
		var v uint32
		testkit.Eventually(t, "the engine takes the messages to its address", func() error { return a.Maps.CmRequests.Lookup(key, &v) })
		testkit.Must(t, d.Close())
		if err := a.Maps.CmRequests.Lookup(key, &v); !errors.Is(err, ebpf.ErrKeyNotExist) {
			t.Errorf("closed: %v", err)
		}
		return nil
	}))
}
