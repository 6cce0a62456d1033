// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"testing"

	"github.com/softroce/softroce-xdp/loader/device"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// A message from one client to another, through the rings of both.
func TestSend(t *testing.T) {
	_, dir := serve(t, device.Config{})
	a, b := newEnd(t, open(t, dir), 4096, verbs.QPInit{Type: verbs.RC}), newEnd(t, open(t, dir), 4096, verbs.QPInit{Type: verbs.RC})
	connect(t, a, b)
	if err := b.qp.PostRecv(&verbs.RecvWR{ID: 7, SGL: b.sgl(0, 64)}); err != nil {
		t.Fatal(err)
	}
	copy(a.buf, "through shared memory")
	if err := a.qp.PostSend(&verbs.SendWR{ID: 1, Op: verbs.OpSendImm, Imm: 42, Flags: verbs.Signaled, SGL: a.sgl(0, 21)}); err != nil {
		t.Fatal(err)
	}
	sent, received := a.wait(t), b.wait(t)
	if sent.WRID != 1 || sent.Status != verbs.StatusSuccess || sent.QPN != a.qp.QPN() {
		t.Errorf("%+v", sent)
	}
	if received.WRID != 7 || received.Status != verbs.StatusSuccess || received.Bytes != 21 || received.Imm != 42 {
		t.Errorf("%+v", received)
	}
	if string(b.buf[:21]) != "through shared memory" {
		t.Errorf("%q", b.buf[:21])
	}
}
