// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"time"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

var retryChecks = []check{
	{name: "no receive, and no RNR retry", source: "IBTA 9.7, ibv_modify_qp(3)", want: "1 RNR retry counter exceeded, ERR", run: func(w *world) {
		a, b := w.ends(rc)
		connect(a, b, func(x *verbs.Attr) { x.RNRRetry = 0 })
		a.post(verbs.SendWR{ID: 1, Op: verbs.OpSend, SGL: a.sgl(0, 8)})
		a.result()
		a.state(verbs.StateErr)
	}},
	{name: "no receive, and two RNR retries", source: "IBTA 9.7, ibv_modify_qp(3)", want: "1 RNR retry counter exceeded", run: func(w *world) {
		a, b := w.ends(rc)
		connect(a, b, func(x *verbs.Attr) { x.RNRRetry = 2 })
		a.post(verbs.SendWR{ID: 1, Op: verbs.OpSend, SGL: a.sgl(0, 8)})
		a.result()
	}},
	{name: "a late receive, and RNR retries without limit", source: "IBTA 9.7, ibv_modify_qp(3)", want: "1 success, 2 success", run: func(w *world) {
		a, b := w.pair(rc)
		a.post(verbs.SendWR{ID: 1, Op: verbs.OpSend, SGL: a.sgl(0, 8)})
		time.Sleep(2 * time.Millisecond) // so that RNR NAKs were sent, mostly: the result is the same
		b.recv(2, b.sgl(0, 8))
		a.result()
		b.result()
	}},
	{name: "WRITE with immediate data without a receive", source: "IBTA 9.7", want: "1 RNR retry counter exceeded", run: func(w *world) {
		a, b := w.ends(rc)
		connect(a, b, func(x *verbs.Attr) { x.RNRRetry = 0 })
		wr := a.write(1, b.mem, 8)
		wr.Op = verbs.OpWriteImm
		a.post(wr)
		a.result()
	}},
	{name: "the peer's queue pair is gone", source: "IBTA 9.7, ibv_modify_qp(3)", want: "1 transport retry counter exceeded, 2 work request flushed", run: func(w *world) {
		a, b := w.ends(rc)
		connect(a, b, func(x *verbs.Attr) { x.Timeout, x.RetryCnt = 8, 1 })
		w.must(b.qp.Destroy())
		a.post(a.write(1, b.mem, 8))
		a.result()
		a.post(a.write(2, b.mem, 8))
		a.result()
	}},
}
