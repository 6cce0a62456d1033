// SPDX-License-Identifier: Apache-2.0

package bpf_test

import (
	"encoding/binary"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/mad"
)

// cmLab is a lab whose engine has queue pair 1, with the keys of a communication manager.
type cmLab struct {
	*lab
	on map[cm.Key]bool
}

func newCMLab(t *testing.T) *cmLab {
	l := newLab(t)
	sock, err := unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(sock) })
	l.must(l.objs.Xsks.Put(uint32(0), uint32(sock)))
	l.must(l.objs.SteerTable.Put(uint32(mad.QPN), bpf.Steer{Queues: 1}))
	l.config(func(c *bpf.Config) { c.Steered = 1 })
	l.know(peer4)
	l.know(peer6)
	return &cmLab{l, map[cm.Key]bool{}}
}

func (l *lab) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

// steer writes a key into the maps, as loader/engine does.
func (l *cmLab) steer(s cm.Steer) {
	l.t.Helper()
	k := s.Key
	switch x := k.(type) {
	case cm.KeyService:
		if s.Off {
			l.must(l.objs.CmServices.Delete(uint64(x.Service)))
		} else {
			l.must(l.objs.CmServices.Put(uint64(x.Service), uint32(0)))
		}
	case cm.KeyRequest:
		key := bpf.CmRequest{Peer: bpf.KeyOf(x.Addr), Guid: x.GUID, Id: x.ID, Sidr: number(x.SIDR)}
		if s.Off {
			l.must(l.objs.CmRequests.Delete(key))
		} else {
			l.must(l.objs.CmRequests.Put(key, uint32(0)))
		}
	case cm.KeyRest:
		key := bpf.CmRequest{Peer: bpf.KeyOf(x.Local), Sidr: bpf.CmRest}
		if s.Off {
			l.must(l.objs.CmRequests.Delete(key))
		} else {
			l.must(l.objs.CmRequests.Put(key, uint32(0)))
		}
	case cm.KeyID:
		if k = (cm.KeyID{ID: x.ID}); s.Off {
			l.must(l.objs.CmIds.Delete(uint32(x.ID)))
		} else {
			l.must(l.objs.CmIds.Put(uint32(x.ID), bpf.CmId{Peer: bpf.KeyOf(x.Addr), Remote: x.Remote, Sidr: number(x.SIDR)}))
		}
	}
	if s.Off {
		delete(l.on, k)
	} else {
		l.on[k] = true
	}
}

func (l *cmLab) clear() {
	l.t.Helper()
	for k := range maps.Clone(l.on) {
		l.steer(cm.Steer{Key: k, Off: true})
	}
}

func number(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}

func gsi(m []byte) rocev2.Datagram {
	return rocev2.Datagram{Src: peer4, Dst: us4, Opcode: rocev2.UDSendOnly, DestQP: mad.QPN, SrcQP: mad.QPN, QKey: mad.QKey, Payload: m}
}

// What the messages of the table carry.
const (
	cmService = mad.ServiceID(0x01060000 | 7174)
	cmGUID    = 0x1122334455667788
	cmTheirs  = 0xAABBCCDD // communication ID of the peer
	cmOurs    = 0x01020304
)

// cmCase is a message, and keys of which each alone makes it the engine's.
type cmCase struct {
	name string
	m    mad.Header
	keys []cm.Key
	not  []cm.Key // keys that the message does not have, although they are close
}

func cmCases(peer netip.Addr) []cmCase {
	req := mad.NewREQ(1)
	req.SetLocalCommID(cmTheirs)
	req.SetServiceID(cmService)
	req.SetCAGUID(cmGUID)
	timeout := func(info int) mad.Header {
		rej := mad.NewREJ(1, cmTheirs, 0, mad.KindOther, mad.ReasonTimeout)
		_ = rej.SetInfo(binary.BigEndian.AppendUint64(nil, cmGUID))
		rej.Header[33] = byte(info) << 1
		return rej.Header
	}
	other := mad.NewREJ(1, cmTheirs, 0, mad.KindREQ, mad.ReasonConsumer)
	_ = other.SetInfo(binary.BigEndian.AppendUint64(nil, cmGUID))
	request := cm.KeyRequest{Addr: peer, GUID: cmGUID, ID: cmTheirs}
	sidr := cm.KeyRequest{Addr: peer, ID: cmTheirs, SIDR: true}
	id := cm.KeyID{ID: cmOurs, Addr: peer, Remote: cmTheirs}
	anyRemote, elsewhere, otherRemote, resolution := id, id, id, id
	anyRemote.Remote, otherRemote.Remote, resolution.SIDR = 0, cmTheirs+1, true
	elsewhere.Addr = us4
	listener, otherListener := cm.KeyService{Service: cmService}, cm.KeyService{Service: cmService + 1}
	connected, notConnected := []cm.Key{id, anyRemote}, []cm.Key{elsewhere, otherRemote, resolution, request, listener}
	otherRequests := []cm.Key{
		cm.KeyRequest{Addr: us4, GUID: cmGUID, ID: cmTheirs}, cm.KeyRequest{Addr: peer, GUID: cmGUID + 1, ID: cmTheirs},
		cm.KeyRequest{Addr: peer, GUID: cmGUID, ID: cmTheirs + 1}, cm.KeyRequest{Addr: peer, GUID: cmGUID, ID: cmTheirs, SIDR: true},
		otherListener, id,
	}
	unknown := mad.NewRTU(1, cmTheirs, cmOurs).Header
	binary.BigEndian.PutUint16(unknown[16:], 0x19) // LAP
	return []cmCase{
		{"REQ", req.Header, []cm.Key{listener, request}, otherRequests},
		{"MRA", mad.NewMRA(1, cmTheirs, cmOurs, mad.KindREQ).Header, connected, notConnected},
		{"REJ", mad.NewREJ(1, cmTheirs, cmOurs, mad.KindREQ, mad.ReasonTimeout).Header, connected, notConnected},
		{"REJ without its sender's ID", mad.NewREJ(1, 0, cmOurs, mad.KindREQ, mad.ReasonTimeout).Header,
			append(connected, otherRemote), []cm.Key{elsewhere, resolution}},
		{"REJ without our ID", timeout(8), []cm.Key{request}, []cm.Key{listener, id, sidr, cm.KeyID{Addr: peer}}},
		{"REJ with a short GUID", timeout(7), nil, []cm.Key{request, id}},
		{"REJ without our ID, another reason", other.Header, nil, []cm.Key{request, id}},
		{"REP", mad.NewREP(1, cmTheirs, cmOurs).Header, connected, notConnected},
		{"REP to nobody", mad.NewREP(1, cmTheirs, 0).Header, nil, []cm.Key{id, cm.KeyID{Addr: peer, Remote: cmTheirs}}},
		{"RTU", mad.NewRTU(1, cmTheirs, cmOurs).Header, connected, notConnected},
		{"DREQ", mad.NewDREQ(1, cmTheirs, cmOurs, 0x11).Header, connected, notConnected},
		{"DREQ without its sender's ID", mad.NewDREQ(1, 0, cmOurs, 0x11).Header, []cm.Key{anyRemote}, []cm.Key{id}},
		{"DREP", mad.NewDREP(1, cmTheirs, cmOurs).Header, connected, notConnected},
		{"SIDR_REQ", mad.NewSIDRREQ(1, cmTheirs, cmService).Header, []cm.Key{listener, sidr}, []cm.Key{otherListener, request, id}},
		{"SIDR_REP", mad.NewSIDRREP(1, cmOurs, mad.SIDRSuccess, cmService).Header, []cm.Key{resolution}, []cm.Key{id, listener}},
		{"LAP", unknown, nil, []cm.Key{id, listener}},
	}
}

// Each message goes to the engine if one of its keys is there, and to the kernel stack otherwise, in
// every encapsulation.
func TestSteerCM(t *testing.T) {
	l := newCMLab(t)
	for _, link := range links {
		for _, v6 := range []bool{false, true} {
			for _, stamp := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, v6=%v, stamped=%v", link.name, v6, stamp), func(t *testing.T) {
					l.t = t
					for _, c := range cmCases(peerOf(v6)) {
						d := gsi(c.m)
						if v6 {
							d = over6(d)
						}
						plain := fromPeer(t, d)
						count := "rx_unstamped"
						if stamp {
							d, count = stamped(d, someStamp), "rx_stamped"
						}
						l.check(c, d.Dst, fromPeer(t, d, link.tags...), plain, count)
					}
				})
			}
		}
	}
	l.t = t
}

func (l *cmLab) check(c cmCase, own netip.Addr, in, out []byte, count string) {
	l.t.Helper()
	want := func(what string, verdict uint32, counts ...string) {
		l.t.Helper()
		got, b := l.in(in)
		if got != verdict || !slices.Equal(b[len(b)-len(out):], out) {
			l.t.Errorf("%s, %s: verdict %d, want %d, and the packet without its stamp", c.name, what, got, verdict)
		}
		l.wantCounters(append(counts, count)...)
		l.clear()
	}
	want("no key", xdpPass, "rx_cm_passed")
	for _, k := range c.keys {
		l.steer(cm.Steer{Key: k})
		want(fmt.Sprintf("with %+v", k), xdpRedirect, "rx_steered", "rx_cm_steered")
	}
	l.steer(cm.Steer{Key: cm.KeyRest{Local: own}})
	want("with all messages", xdpRedirect, "rx_steered", "rx_cm_steered")
	l.steer(cm.Steer{Key: cm.KeyRest{Local: own.Next()}})
	want("with those to another address", xdpPass, "rx_cm_passed")
	for _, k := range c.not {
		l.steer(cm.Steer{Key: k})
		want(fmt.Sprintf("with %+v", k), xdpPass, "rx_cm_passed")
	}
}

// What is no message of communication management in the right packet is not the engine's, whatever
// keys there are.
func TestSteerCMMalformed(t *testing.T) {
	l := newCMLab(t)
	good := gsi(cmCases(peer4)[0].m)
	changed := func(change func(*rocev2.Datagram)) []byte {
		d := good
		d.Payload = slices.Clone(d.Payload)
		change(&d)
		return fromPeer(t, d)
	}
	payload := func(at int, v byte) []byte {
		return changed(func(d *rocev2.Datagram) { d.Payload[at] = v })
	}
	l.steer(cm.Steer{Key: cm.KeyService{Service: cmService}})
	if verdict, _ := l.in(fromPeer(t, good)); verdict != xdpRedirect {
		t.Fatalf("the message itself: verdict %d", verdict)
	}
	frame := fromPeer(t, good)
	bth := offBTH4
	for name, f := range map[string][]byte{
		"base version":       payload(0, 2),
		"class":              payload(1, 3),
		"class version":      payload(2, 1),
		"method":             payload(3, 0x81),
		"attribute":          payload(16, 1),
		"Q_Key":              changed(func(d *rocev2.Datagram) { d.QKey++ }),
		"SEND of RC":         changed(func(d *rocev2.Datagram) { d.Opcode = rocev2.RCSendOnly; d.QKey = 0 }),
		"with immediate":     changed(func(d *rocev2.Datagram) { d.Opcode = rocev2.UDSendOnlyImm }),
		"252 bytes":          changed(func(d *rocev2.Datagram) { d.Payload = d.Payload[:252] }),
		"260 bytes":          changed(func(d *rocev2.Datagram) { d.Payload = append(d.Payload, 0, 0, 0, 0) }),
		"255 bytes and pad":  changed(func(d *rocev2.Datagram) { d.Payload = d.Payload[:255] }),
		"version of the BTH": edit(frame, func(f []byte) { f[bth+1] |= 1 }),
	} {
		l.counters()
		if verdict, _ := l.in(f); verdict != xdpPass {
			t.Errorf("%s: verdict %d", name, verdict)
		}
		l.wantCounters("rx_unstamped", "rx_cm_passed")
	}
	// Cut anywhere, with lengths that say so: never the engine's.
	for n := range mad.Len {
		f := changed(func(d *rocev2.Datagram) { d.Payload = d.Payload[:n] })
		if verdict, _ := l.in(f); verdict != xdpPass {
			t.Errorf("%d bytes of MAD: verdict %d", n, verdict)
		}
		if verdict, _ := l.in(frame[:len(frame)-mad.Len-4+n]); verdict != xdpPass {
			t.Errorf("cut after %d bytes of MAD: verdict %d", n, verdict)
		}
	}
	// Without the entry of queue pair 1 the tables do not count.
	l.counters()
	l.must(l.objs.SteerTable.Delete(uint32(mad.QPN)))
	if verdict, _ := l.in(frame); verdict != xdpPass {
		t.Errorf("not enabled: verdict %d", verdict)
	}
	l.wantCounters("rx_unstamped")
}

// A CNP to queue pair 1, whose number anybody knows, proves nothing.
func TestCMNoTrouble(t *testing.T) {
	l := newCMLab(t)
	l.must(l.objs.SteerTable.Put(uint32(0x800001), bpf.Steer{Queues: 1}))
	for qpn, proven := range map[uint32]bool{mad.QPN: false, 0x800001: true} {
		before := l.regs(peer4).Cnps
		l.in(fromPeer(t, rocev2.Datagram{Src: peer4, Dst: us4, Opcode: rocev2.CNP, DestQP: qpn}))
		if got := l.regs(peer4).Cnps - before; got != uint64(number(proven)) {
			t.Errorf("a CNP to %#x counts %d", qpn, got)
		}
	}
}
