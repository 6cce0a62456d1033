// SPDX-License-Identifier: Apache-2.0

package proto_test

import (
	"bytes"
	"errors"
	"net/netip"
	"reflect"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

var cmPath = cm.Path{
	Type:   verbs.UC,
	Local:  verbs.Endpoint{Addr: netip.MustParseAddr("10.0.0.1"), QPN: 1, PSN: 2, QKey: 3},
	Remote: verbs.Endpoint{Addr: netip.MustParseAddr("fe80::1"), QPN: 4, PSN: 5, QKey: 6},
	Attr:   verbs.Attr{PMTU: rocev2.PMTU512, DestQPN: 7, Timeout: 8},
}

// complete fails a test that leaves out a field of a structure.
func complete(t *testing.T, s any) {
	t.Helper()
	v := reflect.ValueOf(s)
	for i := range v.NumField() {
		if v.Field(i).IsZero() {
			t.Errorf("the test leaves out %s", v.Type().Field(i).Name)
		}
	}
}

// Parameters of a connection arrive as they were.
func TestCMConnect(t *testing.T) {
	p := cm.ConnectParams{
		Local: netip.MustParseAddr("::1"), Peer: netip.MustParseAddr("10.1.2.3"), Service: 1 << 40, SrcPort: 2, Type: verbs.RC, QPN: 3, PSN: 4,
		SRQ: true, Attr: cmPath.Attr, Private: []byte{1, 2, 3},
	}
	complete(t, p)
	m, err := proto.CMConnectOf(p)
	if err != nil {
		t.Fatal(err)
	}
	var back proto.CMConnect
	if err := proto.Decode(proto.Append(nil, proto.Header{}, m)[proto.HeaderBytes:], &back); err != nil {
		t.Fatal(err)
	}
	if got, err := back.CM(); err != nil || !reflect.DeepEqual(got, p) {
		t.Errorf("%+v, %v; want %+v", got, err, p)
	}
	p.Private = make([]byte, proto.CMPrivateBytes+1)
	if _, err := proto.CMConnectOf(p); !errors.Is(err, mad.ErrPrivate) {
		t.Errorf("too much private data: %v", err)
	}
}

// Events arrive as they were, with their errors.
func TestCMEvent(t *testing.T) {
	e := cm.Event{
		ID: 1, Kind: cm.Failed, Service: 1 << 40, SrcPort: 2, Path: cmPath, Private: bytes.Repeat([]byte{7}, proto.CMPrivateBytes),
		Err: errors.New("something else"),
	}
	complete(t, e)
	get := func(e cm.Event) cm.Event {
		t.Helper()
		b := proto.AppendCMEvent(nil, e)
		h, body, err := proto.Split(b)
		if err != nil || h.Type != proto.TCMEvent || len(b) > proto.MaxMessage {
			t.Fatalf("%+v, %v, %d bytes", h, err, len(b))
		}
		got, err := proto.DecodeCMEvent(body)
		if err != nil {
			t.Fatal(err)
		}
		for n := range 900 {
			if _, err := proto.DecodeCMEvent(body[:n]); !errors.Is(err, proto.ErrProtocol) {
				t.Fatalf("%d bytes: %v", n, err)
			}
		}
		return got
	}
	got := get(e)
	if got.Err == nil || got.Err.Error() != e.Err.Error() {
		t.Errorf("%v", got.Err)
	}
	got.Err = e.Err
	if !reflect.DeepEqual(got, e) {
		t.Errorf("%+v, want %+v", got, e)
	}
	for _, want := range []error{
		nil,
		&cm.RejectedError{Reason: mad.ReasonInvalidMTU, Info: []byte{3}, Private: []byte("no")},
		&cm.UnresolvedError{Status: mad.SIDRNoQP, Private: []byte("none")},
	} {
		if e.Err = want; !reflect.DeepEqual(get(e).Err, want) {
			t.Errorf("%#v, want %#v", get(e).Err, want)
		}
	}
	if e.Err = cm.ErrStale; !errors.Is(get(e).Err, cm.ErrStale) {
		t.Error(get(e).Err)
	}
}
