// SPDX-License-Identifier: Apache-2.0

// Package e2e holds the tests of the whole product: the real binary, the real
// kernel, real RoCEv2 traffic. It has no code of its own.
package e2e
