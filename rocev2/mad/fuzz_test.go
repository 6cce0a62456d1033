// SPDX-License-Identifier: Apache-2.0

package mad

import (
	"bytes"
	"testing"
)

// FuzzMessages: no message panics, whatever is in it; exactly one parser accepts it, and writing
// the fields of a REQ that were read changes nothing.
func FuzzMessages(f *testing.F) {
	for _, m := range messages {
		f.Add(wire(f, m.wire))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := Parse(b)
		if (err == nil) != (len(h) == Len) {
			t.Fatalf("%d bytes, %v", len(h), err)
		}
		accepted := 0
		for _, m := range messages {
			if h, err := m.parse(b); err == nil {
				accepted++
				quiet := &testing.T{} // the values are not golden
				m.read(quiet, h)
			}
		}
		known := err == nil && h.Attr() >= AttrREQ && h.Attr() <= AttrSIDRREP
		if known && accepted != 1 || !known && accepted != 0 {
			t.Fatalf("%d parsers accept it", accepted)
		}
		m, err := ParseREQ(b)
		if err != nil {
			return
		}
		_ = m.ServiceID().String()
		if d, rest, err := ParseIPData(m.PrivateData()); err == nil {
			again, err := d.Append(nil)
			if err != nil && d.Src.Unmap().Is4() == d.Dst.Unmap().Is4() {
				t.Fatalf("%v: %v", d, err)
			}
			if len(rest) != REQPrivateLen-IPDataLen || err == nil && len(again) != IPDataLen {
				t.Fatalf("%d bytes left, %d written", len(rest), len(again))
			}
		}
		rewriteREQ(t, m)
	})
}

func rewriteREQ(t *testing.T, m REQ) {
	c := REQ{Header(bytes.Clone(m.Header))}
	c.SetLocalCommID(m.LocalCommID())
	c.SetServiceID(m.ServiceID())
	c.SetCAGUID(m.CAGUID())
	c.SetQPN(m.QPN())
	c.SetResponderResources(m.ResponderResources())
	c.SetInitiatorDepth(m.InitiatorDepth())
	c.SetRemoteResponseTimeout(m.RemoteResponseTimeout())
	c.SetService(m.Service())
	c.SetFlowControl(m.FlowControl())
	c.SetPSN(m.PSN())
	c.SetLocalResponseTimeout(m.LocalResponseTimeout())
	c.SetRetryCount(m.RetryCount())
	c.SetPKey(m.PKey())
	c.SetPMTU(m.PMTU())
	c.SetRNRRetry(m.RNRRetry())
	c.SetMaxRetries(m.MaxRetries())
	c.SetSRQ(m.SRQ())
	c.SetExtendedTransport(m.ExtendedTransport())
	c.SetFlowLabel(m.FlowLabel())
	c.SetTrafficClass(m.TrafficClass())
	c.SetHopLimit(m.HopLimit())
	c.SetAckTimeout(m.AckTimeout())
	if err := c.SetPrivateData(m.PrivateData()); err != nil || !bytes.Equal(c.Header, m.Header) {
		t.Errorf("%x rewritten as %x, %v", []byte(m.Header), []byte(c.Header), err)
	}
}
