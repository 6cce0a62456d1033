// SPDX-License-Identifier: Apache-2.0

package creditwire_test

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/cc/precredit"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/creditwire"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// sent is a datagram as it arrives.
func sent(t testing.TB, o *rocev2.Datagram) rocev2.Packet {
	t.Helper()
	o.Src, o.Dst = netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	b, err := o.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := rocev2.ParseIP(b)
	if err != nil {
		t.Fatal(err)
	}
	if p.BTH().DestQP() != rocev2.ControlQPN {
		t.Errorf("destination %#x", p.BTH().DestQP())
	}
	return p
}

// A message arrives as it was sent, each field by itself.
func TestMessages(t *testing.T) {
	var o rocev2.Datagram
	for _, g := range []precredit.Grant{
		{}, {Epoch: 1 << 31}, {Limit: 1<<32 - 1}, {Seq: 1<<16 - 1}, {Open: true}, {Recall: true}, {LifeNs: int64(time.Hour)},
	} {
		creditwire.PutGrant(&o, g)
		p := sent(t, &o)
		if got := creditwire.Grant(p.CreditGrant()); got != g || p.CreditReturn() != nil {
			t.Errorf("%+v, want %+v", got, g)
		}
	}
	for _, r := range []precredit.Return{
		{}, {Epoch: 1 << 31}, {Limit: 1<<32 - 1}, {Sent: 1<<32 - 2}, {Void: 1<<32 - 3}, {Seq: 1<<16 - 1}, {Expired: true}, {Unknown: true},
	} {
		creditwire.PutReturn(&o, r)
		p := sent(t, &o)
		if got := creditwire.Return(p.CreditReturn()); got != r || p.CreditGrant() != nil {
			t.Errorf("%+v, want %+v", got, r)
		}
	}
	creditwire.PutGrant(&o, precredit.Grant{LifeNs: int64(48 * time.Hour)})
	p := sent(t, &o)
	if got := creditwire.Grant(p.CreditGrant()); got.LifeNs != int64(time.Hour) {
		t.Errorf("a life of two days is %v", time.Duration(got.LifeNs))
	}
}

// SEND and WRITE are for pre-credit, with all of their bytes.
func TestWork(t *testing.T) {
	for op := verbs.OpSend; op <= verbs.OpBindWindow; op++ {
		w, ok := creditwire.Work(&verbs.SendWR{Op: op, SGL: []verbs.SGE{{Len: 1000}, {Len: 24}}, Data: make([]byte, 3)})
		verb := precredit.VerbSend
		switch op {
		case verbs.OpWrite, verbs.OpWriteImm:
			verb = precredit.VerbWrite
		case verbs.OpSend, verbs.OpSendImm, verbs.OpSendInv:
		default:
			if ok || w != (precredit.Work{}) {
				t.Errorf("%v: %+v", op, w)
			}
			continue
		}
		want := precredit.Work{Bytes: 1027, Features: precredit.Features{TotalBytes: 1027, PostedBytes: 1027, RegionBytes: 1027, Verb: verb}}
		if !ok || w != want {
			t.Errorf("%v: %+v, want %+v", op, w, want)
		}
	}
}

// A receiver's grant becomes a packet, and the sender reads it.
func Example() {
	receiver := precredit.NewReceiver(precredit.Plan(10e9, 10_000, 100_000, 1024, 0), 1)
	receiver.NewFlow(0, 7)
	_, grant, _ := receiver.Next(0)
	o := rocev2.Datagram{}
	creditwire.PutGrant(&o, grant)
	o.Src, o.Dst = netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	b, _ := o.AppendTo(nil)

	p, _ := rocev2.ParseIP(b)
	fmt.Println(p.Opcode(), creditwire.Grant(p.CreditGrant()).Limit, "bytes")
	// Output: CREDIT_GRANT 12288 bytes
}
