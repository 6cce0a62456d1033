// SPDX-License-Identifier: Apache-2.0

package predict

// Pinball is the quantile loss of an allocation: tau times what is missing, or 1-tau times what is
// unused, in the unit of its arguments. The allocation with the least mean loss is the tau quantile of
// the need (Koenker and Bassett, 1978).
func Pinball(need, allocation, tau float64) float64 {
	if need > allocation {
		return tau * (need - allocation)
	}
	return (1 - tau) * (allocation - need)
}

// pinballMean is the mean loss and its derivative with respect to the allocation, for one allocation
// that serves all needs.
func pinballMean(needs []float64, allocation, tau float64) (loss, slope float64) {
	for _, need := range needs {
		loss += Pinball(need, allocation, tau)
		if need > allocation {
			slope -= tau
		} else {
			slope += 1 - tau
		}
	}
	n := float64(len(needs))
	return loss / n, slope / n
}
