// SPDX-License-Identifier: Apache-2.0

package rdma_test

import (
	"net"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/seal"
	"github.com/softroce/softroce-xdp/testenv/lab/cmpeer"
)

// ipData is how many bytes of the private data of a REQ are the addresses.
const ipData = 36

// A host between both ends that changes REQ or REP of an encrypted connection, in whatever the handshake protects,
// gets neither a connection nor data: one of the ends refuses.
func TestManInTheMiddle(t *testing.T) {
	var other mad.ServiceID // of a second listener with the same key
	offer := func(r mad.REQ) []byte { return r.PrivateData()[ipData:][:seal.OfferLen] }
	answer := func(r mad.REP) []byte { return r.PrivateData()[:seal.AnswerLen] }
	setREQ := func(r mad.REQ, o []byte) { _ = r.SetPrivateData(append(r.PrivateData()[:ipData:ipData], o...)) }
	var recorded []byte // the offer of the same connection
	for _, c := range []struct {
		name string
		req  func(mad.REQ)
		rep  func(mad.REP)
	}{
		{name: "REQ without the offer", req: func(r mad.REQ) { setREQ(r, make([]byte, seal.OfferLen)) }},
		{name: "REQ with a changed offer", req: func(r mad.REQ) { o := offer(r); o[20] ^= 1; setREQ(r, o) }},
		{name: "REQ with version 1", req: func(r mad.REQ) { o := offer(r); o[0] = 1; setREQ(r, o) }},
		{name: "REQ with the other suite", req: func(r mad.REQ) { o := offer(r); o[1] ^= 3; setREQ(r, o) }},
		{name: "REQ to another service", req: func(r mad.REQ) { r.SetServiceID(other) }},
		{name: "REQ with another QPN", req: func(r mad.REQ) { r.SetQPN(r.QPN() ^ 0x40) }},
		{name: "REQ with another PSN", req: func(r mad.REQ) { r.SetPSN(r.PSN() ^ 1) }},
		{name: "REP without the answer", rep: func(r mad.REP) { _ = r.SetPrivateData(make([]byte, seal.AnswerLen)) }},
		{name: "REP with a changed answer", rep: func(r mad.REP) { a := answer(r); a[30] ^= 1; _ = r.SetPrivateData(a) }},
		{name: "REP with the offer", rep: func(r mad.REP) { _ = r.SetPrivateData(recorded) }},
		{name: "REP with another QPN", rep: func(r mad.REP) { r.SetQPN(r.QPN() ^ 0x40) }},
		{name: "REP with another PSN", rep: func(r mad.REP) { r.SetPSN(r.PSN() ^ 0x1000) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			var changed atomic.Int32
			dev := openLoop(t, cmpeer.Config{CM: fast, Drop: func(s cm.Send) bool {
				switch s.MAD.Attr() {
				case mad.AttrREQ:
					r := mad.REQ{Header: s.MAD}
					recorded = append(offer(r), 0, 0, 0, 0)
					if c.req != nil {
						c.req(r)
						changed.Add(1)
					}
				case mad.AttrREP:
					if c.rep != nil {
						c.rep(mad.REP{Pair: mad.Pair{Header: s.MAD}})
						changed.Add(1)
					}
				}
				return false
			}})
			a, b := identity(t), identity(t)
			with := rdma.WithEncryption(knows(b, a))
			l, second := listen(t, dev, ":0", with), listen(t, dev, ":0", with)
			go echo(l)
			go echo(second)
			_, port, _ := net.SplitHostPort(second.Addr().String())
			n, err := strconv.ParseUint(port, 10, 16)
			if err != nil {
				t.Fatal(err)
			}
			other = mad.IPServiceID(mad.PortTCP, uint16(n))
			_, port, _ = net.SplitHostPort(l.Addr().String())
			conn, err := rdma.Dial(testkit.Context(t), dev, "127.0.0.1:"+port, rdma.WithEncryption(knows(a, b)))
			if err == nil {
				conn.Close()
				t.Fatal("connected")
			}
			if changed.Load() == 0 {
				t.Error("nothing was changed")
			}
			if n := dev.Rejected(); n != 1 {
				t.Errorf("%d refusals are counted", n)
			}
			if n := counterOf(t, dev, "tx_data_pkts"); n != 0 {
				t.Errorf("%d packets of data", n)
			}
		})
	}
}
