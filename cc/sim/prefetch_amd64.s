// SPDX-License-Identifier: Apache-2.0

#include "textflag.h"

// func prefetchChunk(*chunk)
TEXT ·prefetchChunk(SB), NOSPLIT, $0-8
	MOVQ x+0(FP), AX
	PREFETCHT0 (AX)
	RET

// func prefetchPacket(*packet)
TEXT ·prefetchPacket(SB), NOSPLIT, $0-8
	MOVQ x+0(FP), AX
	PREFETCHT0 (AX)
	RET

// func prefetchCargo(*cargo)
TEXT ·prefetchCargo(SB), NOSPLIT, $0-8
	MOVQ x+0(FP), AX
	PREFETCHT0 (AX)
	PREFETCHT0 64(AX)
	RET

// func prefetchPort(*port)
TEXT ·prefetchPort(SB), NOSPLIT, $0-8
	MOVQ x+0(FP), AX
	PREFETCHT0 (AX)
	PREFETCHT0 64(AX)
	RET

// func prefetchIngress(*ingress)
TEXT ·prefetchIngress(SB), NOSPLIT, $0-8
	MOVQ x+0(FP), AX
	PREFETCHT0 (AX)
	RET

// func prefetchSlot(*slot)
TEXT ·prefetchSlot(SB), NOSPLIT, $0-8
	MOVQ x+0(FP), AX
	PREFETCHT0 (AX)
	RET

// func prefetchHost(*host)
TEXT ·prefetchHost(SB), NOSPLIT, $0-8
	MOVQ x+0(FP), AX
	PREFETCHT0 (AX)
	PREFETCHT0 64(AX)
	PREFETCHT0 128(AX)
	PREFETCHT0 192(AX)
	RET

// func prefetchFlow(*Flow)
TEXT ·prefetchFlow(SB), NOSPLIT, $0-8
	MOVQ x+0(FP), AX
	PREFETCHT0 (AX)
	PREFETCHT0 64(AX)
	PREFETCHT0 128(AX)
	PREFETCHT0 192(AX)
	PREFETCHT0 256(AX)
	PREFETCHT0 320(AX)
	RET

// func prefetchPacer(*Pacer)
TEXT ·prefetchPacer(SB), NOSPLIT, $0-8
	MOVQ x+0(FP), AX
	PREFETCHT0 (AX)
	PREFETCHT0 64(AX)
	PREFETCHT0 128(AX)
	PREFETCHT0 192(AX)
	PREFETCHT0 256(AX)
	RET

// func prefetchSelective(*selective)
TEXT ·prefetchSelective(SB), NOSPLIT, $0-8
	MOVQ x+0(FP), AX
	PREFETCHT0 (AX)
	PREFETCHT0 64(AX)
	RET
