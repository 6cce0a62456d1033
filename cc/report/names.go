// SPDX-License-Identifier: Apache-2.0

package report

// The schemes that the report is about, by their names in the simulator's table.
const (
	fourcase    = "fourcase"
	rates       = "fourcase-rate"
	lowPriority = "fourcase-low-priority"
	precredit   = "fourcase-precredit"
	oneQueue    = "precredit-one-queue" // the same without queues by size
	literal     = "literal"
)

// ownFamily are the schemes of this project; all others are baselines.
var ownFamily = map[string]bool{fourcase: true, rates: true, lowPriority: true, precredit: true, oneQueue: true, literal: true}
