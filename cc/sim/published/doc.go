// SPDX-License-Identifier: Apache-2.0

// Package published has congestion control schemes of other authors as pure state machines, for
// comparison with the product's own policies: DCQCN, DCTCP, ExpressPass, HPCC, Swift and TIMELY.
// Internal to this project.
//
// Each file names the paper and the implementations that its facts are from. They use floats, keep no clock
// and start no goroutine. Every event takes the time at which it happens, in nanoseconds from any
// origin. Windows are bytes or packets, as the paper has them. Rates are bits per second.
package published

import "math"

// Never is a timer that is not set.
const Never = math.MaxInt64
