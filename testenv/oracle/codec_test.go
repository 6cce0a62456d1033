// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// TestSendArgs pins what the helper gets for each operation.
func TestSendArgs(t *testing.T) {
	wr := verbs.SendWR{
		ID: 7, SGL: []verbs.SGE{{Addr: 0x10, Len: 20, LKey: 0x30}, {Addr: 0x40, Len: 50, LKey: 0x60}},
		Imm: 0x1, InvKey: 0x2, RemoteAddr: 0x3, RKey: 0x4, Compare: 0x5, Swap: 0x6, Add: 0x8,
		Bind: verbs.Bind{Window: 0x1234, Region: 0x30, Addr: 0x9, Length: 10, Access: verbs.AccessRemoteRead, NewKey: 0x56},
	}
	const remote = " raddr=0x3 rkey=0x4"
	for op, want := range map[verbs.Op]string{
		verbs.OpSend: "", verbs.OpSendImm: " imm=0x1", verbs.OpSendInv: " inv=0x2", verbs.OpWrite: remote,
		verbs.OpWriteImm: " imm=0x1" + remote, verbs.OpRead: remote, verbs.OpCompareSwap: remote + " compare_add=0x5 swap=0x6",
		verbs.OpFetchAdd: remote + " compare_add=0x8", verbs.OpLocalInv: " inv=0x2",
		verbs.OpBindWindow: " addr=0x9 len=10 access=0x4 rkey=0x1256",
	} {
		wr.Op = op
		want = " op=" + opNames[op] + " id=7 sge=0x10:20:0x30 sge=0x40:50:0x60" + want
		if got := sendArgs(&wr); got != want {
			t.Errorf("%v:%s, want%s", op, got, want)
		}
	}
	wr = verbs.SendWR{Op: verbs.OpSend}
	for flags, want := range map[verbs.Flags]string{
		verbs.Signaled: " signaled=1", verbs.Solicited: " solicited=1", verbs.Fence: " fence=1", verbs.Signaled | verbs.Fence: " signaled=1 fence=1",
	} {
		wr.Flags = flags
		if got := sendArgs(&wr); got != " op=send id=0"+want {
			t.Errorf("flags %b:%s, want%s", flags, got, want)
		}
	}
}

// TestAttrArgs pins what the helper gets for the steps of each service.
func TestAttrArgs(t *testing.T) {
	a := verbs.Attr{
		PMTU: rocev2.PMTU2048, DestQPN: 1, QKey: 0x2, SQPSN: 3, RQPSN: 4, Access: verbs.AccessRemoteAtomic, MaxRdAtomic: 5,
		MaxDestRdAtomic: 6, MinRNRTimer: 7, Timeout: 8, RetryCnt: 9, RNRRetry: 10,
	}
	for service, steps := range map[verbs.QPType][3]string{
		verbs.RC: {
			" state=init access=0x8 pkey_index=0 port=1", " state=rtr mtu=2048 dest_qpn=1 rq_psn=4 dest_rd_atomic=6 min_rnr_timer=7",
			" state=rts sq_psn=3 rd_atomic=5 timeout=8 retry_cnt=9 rnr_retry=10",
		},
		verbs.UC: {" state=init access=0x8 pkey_index=0 port=1", " state=rtr mtu=2048 dest_qpn=1 rq_psn=4", " state=rts sq_psn=3"},
		verbs.UD: {" state=init qkey=0x2 pkey_index=0 port=1", " state=rtr", " state=rts sq_psn=3"},
	} {
		for i, want := range steps {
			a.State = verbs.StateInit + verbs.State(i)
			if got, err := attrArgs(a, verbs.RequiredMask(service, a.State)); err != nil || got != want {
				t.Errorf("%v to %v:%s, %v, want%s", service, a.State, got, err, want)
			}
		}
	}
	if _, err := attrArgs(a, verbs.MaskState|verbs.MaskPKey); err == nil {
		t.Error("a P_Key was not refused")
	}
}

// TestParseWC has completions as the helper prints them.
func TestParseWC(t *testing.T) {
	for line, want := range map[string]verbs.Completion{
		"1:0:1:0:0:0:17:0:0":     {WRID: 1, QPN: 17, Op: verbs.OpWrite},
		"2:0:128:64:3:9:17:18:0": {WRID: 2, QPN: 17, Op: verbs.OpRecv, Bytes: 64, HasGRH: true, HasImm: true, Imm: 9, SrcQP: 18},
		"3:0:129:0:8:9:17:18:0":  {WRID: 3, QPN: 17, Op: verbs.OpRecvWriteImm, HasInv: true, InvKey: 9, SrcQP: 18},
		"4:13:0:5:3:5:17:0:0":    {WRID: 4, QPN: 17, Status: verbs.StatusRNRRetryExceeded},
	} {
		if got, err := parseWC(line); err != nil || got != want {
			t.Errorf("%s: %+v, %v, want %+v", line, got, err, want)
		}
	}
	for _, line := range []string{"", "1:0:1:0:0:0:17:0", "1:0:1:0:0:0:17:x:0", "1:3:0:0:0:0:17:0:0", "1:0:99:0:0:0:17:0:0"} {
		if got, err := parseWC(line); err == nil {
			t.Errorf("%q was taken as %+v", line, got)
		}
	}
}
