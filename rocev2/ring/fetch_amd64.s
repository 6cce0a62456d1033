// SPDX-License-Identifier: Apache-2.0

#include "textflag.h"

// func prefetch(w *atomic.Uint64)
TEXT ·prefetch(SB), NOSPLIT, $0-8
	MOVQ w+0(FP), AX
	PREFETCHT0 (AX)
	RET
