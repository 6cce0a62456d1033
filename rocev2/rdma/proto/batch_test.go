// SPDX-License-Identifier: Apache-2.0

package proto_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"reflect"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

var batchOf2 = []proto.Part{
	{Type: proto.TCreateCQ, Request: &proto.CreateCQ{Depth: 7}, Reply: new(proto.CreateCQReply)},
	{Type: proto.TModifyQP, Request: &proto.ModifyQP{Handle: 3, Attr: proto.Attr{State: 6}}},
}

// A batch byte for byte, and what is left of it when bytes are missing.
func TestBatchBytes(t *testing.T) {
	got := proto.AppendBatch(nil, 0x04030201, batchOf2)
	want := []byte{
		0, 3, 0, 0, 1, 2, 3, 4,
		byte(proto.TCreateCQ), 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0,
		byte(proto.TModifyQP), 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 6,
	}
	want = append(want, make([]byte, binary.Size(proto.Attr{})-1)...)
	if !bytes.Equal(got, want) {
		t.Errorf("% x, want % x", got, want)
	}
	body := got[proto.HeaderBytes:]
	parts, err := proto.DecodeBatch(body)
	if err != nil || !reflect.DeepEqual(parts, batchOf2) {
		t.Errorf("%v, %v", parts, err)
	}
	for n := range body {
		parts, err := proto.DecodeBatch(body[:n])
		whole := n == 0 || n == 12 // requests
		if whole != (err == nil) || !whole && !errors.Is(err, proto.ErrProtocol) {
			t.Errorf("%d of %d bytes: %v, %v", n, len(body), parts, err)
		}
	}
}

// What a batch may not have.
func TestBatchRefused(t *testing.T) {
	toRTR := proto.Part{Type: proto.TModifyQP, Request: &proto.ModifyQP{Mask: uint32(verbs.MaskAV)}}
	ready := proto.Part{Type: proto.TCMReady, Request: new(proto.CMCall)}
	create, destroy := batchOf2[0], proto.Part{Type: proto.TDestroyCQ, Request: new(proto.Handle)}
	many := func(n int) (parts []proto.Part) {
		for range n {
			parts = append(parts, destroy)
		}
		return parts
	}
	for _, c := range []struct {
		name  string
		parts []proto.Part
		ok    bool
	}{
		{"as many as there may be", many(proto.MaxBatch), true},
		{"one more", many(proto.MaxBatch + 1), false},
		{"one that waits", []proto.Part{toRTR, ready}, true},
		{"one that waits, and an object", []proto.Part{toRTR, destroy}, false},
		{"an object, and one that waits", []proto.Part{destroy, toRTR}, false},
		{"one that makes an object and modifies another", batchOf2, true},
		{"one that makes an object and ends one", []proto.Part{create, destroy}, false},
		{"a type that is not for batches", []proto.Part{{Type: proto.TPort}}, false},
		{"a batch", []proto.Part{{Type: proto.TBatch}}, false},
		{"no request", []proto.Part{{Type: 0x7fff}}, false},
	} {
		got, err := proto.DecodeBatch(proto.AppendBatch(nil, 1, c.parts)[proto.HeaderBytes:])
		if c.ok != (err == nil) || !c.ok && !errors.Is(err, proto.ErrProtocol) {
			t.Errorf("%s: %v, %v", c.name, got, err)
		}
		if want := len(c.parts) > 0 && c.parts[0].Request == toRTR.Request; c.ok && proto.BatchWaits(got) != want {
			t.Errorf("%s: waits is %v", c.name, !want)
		}
	}
}

// Results up to the first that failed, and with missing bytes.
func TestBatchResults(t *testing.T) {
	made := proto.CreateCQReply{Handle: 9, Offset: 4096}
	b := proto.AppendReply(nil, proto.Header{Type: proto.TCreateCQ}, &made, nil)
	first := len(b)
	b = proto.AppendReply(b, proto.Header{Type: proto.TDestroyCQ}, nil, verbs.ErrBusy)
	reply := new(proto.CreateCQReply)
	parts := []proto.Part{{Type: proto.TCreateCQ, Reply: reply}, {Type: proto.TDestroyCQ}}
	done, err := proto.DecodeResults(b, parts)
	if done != 1 || !errors.Is(err, verbs.ErrBusy) || err.Error() != verbs.ErrBusy.Error() || *reply != made {
		t.Errorf("%d, %v, %+v", done, err, *reply)
	}
	for n := range first + proto.HeaderBytes {
		done, err := proto.DecodeResults(b[:n], parts)
		if want := n / first; done != want || err == nil {
			t.Errorf("%d of %d bytes: %d, %v", n, len(b), done, err)
		}
	}
	b = proto.AppendReply(b[:first], proto.Header{Type: proto.TDestroyCQ}, nil, nil)
	if done, err := proto.DecodeResults(b, parts); done != 2 || err != nil {
		t.Error(done, err)
	}
}
