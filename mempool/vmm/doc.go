// SPDX-License-Identifier: Apache-2.0

// Package vmm is the virtual memory manager of the memory pool (S4.4).
package vmm
