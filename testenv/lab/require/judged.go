// SPDX-License-Identifier: Apache-2.0

//go:build timing

package require

// Judged tells whether missed figures fail a test.
const Judged = true
