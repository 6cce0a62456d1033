// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"log/slog"

	"github.com/softroce/softroce-xdp/internal/resident"
)

// agentScore is the score of an agent when the kernel chooses the process to end, as OOMScoreAdjust of the unit.
const agentScore = -900

// stayResident keeps the agent in memory: without it traffic leaves unpaced, and programs lose their device.
func stayResident(log *slog.Logger) {
	if err := resident.Protect(agentScore); err != nil {
		log.Info("the agent may be ended when memory runs out", "err", err)
	}
	if err := resident.Lock(); err != nil {
		log.Info("the agent may be swapped out", "err", err)
	}
}
