// SPDX-License-Identifier: Apache-2.0

// Package poolbench has the commands of bench about the memory pool: pool compares it with swap, pooldemo shows it.
package poolbench
