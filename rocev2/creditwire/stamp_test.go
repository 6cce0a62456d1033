// SPDX-License-Identifier: Apache-2.0

package creditwire_test

import (
	"testing"

	"github.com/softroce/softroce-xdp/cc/precredit"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/creditwire"
	"github.com/softroce/softroce-xdp/rocev2/qp"
)

// port is a host that sends nothing, and counts its returns.
type port struct{ returns int }

func (p *port) InFlight() (uint64, bool)                                { return 0, false }
func (p *port) AheadOfRate(int64) uint32                                { return 0 }
func (p *port) Apply(uint32, []*precredit.Flow)                         {}
func (p *port) SendData(int64, *precredit.Flow) (none precredit.Result) { return precredit.ResultFull }
func (p *port) SendReturn(precredit.Return)                             { p.returns++ }

// newPeer returns a host that has 5000 bytes of pre-credit from a peer, a flow of 2000 bytes to it, and has granted it 3000.
func newPeer(t *testing.T) (end *precredit.Endpoint, p *precredit.Peer, f *precredit.Flow) {
	t.Helper()
	const life = int64(1e9)
	end = precredit.NewEndpoint(precredit.Params{
		BufferBytes: 3000, ShareBytes: 3000, MinBytes: 1000, LifeNs: life, DelayNs: 1e6, RetryNs: 1e6,
	}, 0)
	p = end.NewPeer(1, &port{}, precredit.SenderParams{LinkBps: 1e10, RTTNs: 1e4, BDPBytes: 12_500})
	p.TurnOn()
	end.TakeFlows(0)
	_, g, ok := end.NextGrant(0)
	if !ok {
		t.Fatal("no grant")
	}
	p.Return(0, precredit.Return{Epoch: g.Epoch, Limit: g.Limit, Seq: g.Seq})
	p.Grant(0, precredit.Grant{Epoch: 1, Limit: 5000, Seq: 9, Open: true, LifeNs: life})
	f = &precredit.Flow{Packet: 1000}
	p.Connect(f)
	p.Post(0, f, precredit.Work{First: true, Bytes: 2000, Features: precredit.Features{TotalBytes: 2000}})
	p.Port.(*port).returns = 0
	return end, p, f
}

// Data that Port.SendData sends has the total sent, ACKs have the limit, each with the number of the latest grant.
// What was lost is reported, also by a packet without the option.
func TestStamp(t *testing.T) {
	data, ack := rocev2.Stamp{Flags: rocev2.StampCredit, Credit: 1000, CreditSeq: 9}, rocev2.Stamp{Flags: rocev2.StampCredit, Credit: 3000, CreditSeq: 1}
	none := rocev2.Stamp{}
	for i, test := range []struct {
		op                 rocev2.Opcode
		ahead, again, lost bool
		want               *rocev2.Stamp // nil: the packet has no option
	}{
		{rocev2.RCWriteOnly, true, false, false, &data},
		{rocev2.RCSendFirst, true, false, false, &data},
		{rocev2.RCWriteOnly, false, false, false, &none},
		{rocev2.RCWriteOnly, true, true, true, &none},
		{rocev2.RCWriteOnly, true, true, false, &none},
		{rocev2.RCWriteOnly, true, false, false, nil},
		{rocev2.RCWriteOnly, false, true, true, nil},
		{rocev2.RCAck, false, false, false, &ack},
		{rocev2.RCAtomicAck, false, false, false, &ack},
		{rocev2.RCReadRequest, false, false, false, &none},
		{rocev2.RCReadResponseOnly, true, false, false, &none},
	} {
		end, p, f := newPeer(t)
		o := &qp.Outbound{PayloadLen: 1000, Again: test.again, Lost: test.lost}
		o.Opcode = test.op
		if test.want != nil {
			o.Stamp = &rocev2.Stamp{}
		}
		creditwire.Stamp(1, p, f, o, test.ahead)
		if test.want != nil && *o.Stamp != *test.want {
			t.Errorf("row %d, %v: stamp %+v, want %+v", i, test.op, *o.Stamp, *test.want)
		}
		if used := end.Counts.Used > 0; used != (test.want == &data) {
			t.Errorf("row %d, %v: %d bytes used", i, test.op, end.Counts.Used)
		}
		end.Step(2)
		if n := p.Port.(*port).returns; n != 0 != test.lost {
			t.Errorf("row %d, %v: %d reports, lost %v", i, test.op, n, test.lost)
		}
	}
}
