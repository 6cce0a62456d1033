// SPDX-License-Identifier: Apache-2.0

#include "textflag.h"

// TestLines says what is in these lines.

// func prefetchChunk(x *chunk)
TEXT ·prefetchChunk(SB), NOSPLIT, $0-8
	MOVQ x+0(FP), AX
	PREFETCHT0 (AX)
	RET

// func prefetchPacket(x *packet)
TEXT ·prefetchPacket(SB), NOSPLIT, $0-8
	MOVQ x+0(FP), AX
	PREFETCHT0 (AX)
	RET

// func prefetchMeta(x *packetMeta)
TEXT ·prefetchMeta(SB), NOSPLIT, $0-8
	MOVQ x+0(FP), AX
	PREFETCHT0 (AX)
	RET

// func prefetchPort(x *port)
TEXT ·prefetchPort(SB), NOSPLIT, $0-8
	MOVQ x+0(FP), AX
	PREFETCHT0 (AX)
	RET

// func prefetchQueues(x *port)
TEXT ·prefetchQueues(SB), NOSPLIT, $0-8
	MOVQ x+0(FP), AX
	PREFETCHT0 64(AX)
	RET

// func prefetchIngress(x *ingress)
TEXT ·prefetchIngress(SB), NOSPLIT, $0-8
	MOVQ x+0(FP), AX
	PREFETCHT0 (AX)
	RET

// func prefetchSlot(x *slot)
TEXT ·prefetchSlot(SB), NOSPLIT, $0-8
	MOVQ x+0(FP), AX
	PREFETCHT0 (AX)
	RET

// func prefetchHost(x *host)
TEXT ·prefetchHost(SB), NOSPLIT, $0-8
	MOVQ x+0(FP), AX
	PREFETCHT0 (AX)
	PREFETCHT0 64(AX)
	RET

// func prefetchSender(x *Flow)
TEXT ·prefetchSender(SB), NOSPLIT, $0-8
	MOVQ x+0(FP), AX
	PREFETCHT0 (AX)
	PREFETCHT0 128(AX)
	PREFETCHT0 192(AX)
	RET

// func prefetchReceiver(x *Flow)
TEXT ·prefetchReceiver(SB), NOSPLIT, $0-8
	MOVQ x+0(FP), AX
	PREFETCHT0 64(AX)
	RET

// func prefetchPacer(x *Pacer)
TEXT ·prefetchPacer(SB), NOSPLIT, $0-8
	MOVQ x+0(FP), AX
	PREFETCHT0 (AX)
	PREFETCHT0 64(AX)
	PREFETCHT0 128(AX)
	PREFETCHT0 192(AX)
	RET

// func prefetchSelective(x *selective)
TEXT ·prefetchSelective(SB), NOSPLIT, $0-8
	MOVQ x+0(FP), AX
	PREFETCHT0 (AX)
	RET
