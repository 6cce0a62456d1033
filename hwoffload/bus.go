// SPDX-License-Identifier: Apache-2.0

package hwoffload

import "github.com/softroce/softroce-xdp/hwoffload/regs"

// Bus accesses registers by their addresses in bytes.
type Bus = regs.Bus
